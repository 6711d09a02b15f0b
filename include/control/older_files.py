"""Says whether somebody still needs files of a table's earlier versions, so that VACUUM must wait."""

from __future__ import annotations

from include.control.deliveries import Deliverer
from include.lake.ledger import Ledger
from include.participants.catalog import Catalog
from include.participants.heads import heads_of
from include.participants.outbox import CHANGES
from include.participants.participant import POINT
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import LedgerBehindTarget, TargetBehindLedger
from include.settings import Settings


def are_needed(settings: Settings, pipeline: Pipeline, name: str) -> bool:
    """Whether a batch or a delivery may read them.

    A table before the point is made anew from an earlier version if it is not where the last landed batch left it; one
    that was rolled back can be brought back. What follows the point reads what its commits have changed.

    Args:
        name: the participant's.

    Raises:
        TableDamaged: see there.
    """
    catalog = Catalog.of(pipeline)
    if _a_sink_waits(settings, pipeline, name):
        return True
    if name == catalog.point.name:
        return False
    state = Ledger(Tables.of(settings, pipeline).ledger).recent()
    if (named := state.positions.get(name)) is None:
        return False
    try:
        return not heads_of(settings, pipeline, state)[name].is_at(named)
    except (TargetBehindLedger, LedgerBehindTarget):  # a table was rolled back; a generation's end was interrupted
        return True


def _a_sink_waits(settings: Settings, pipeline: Pipeline, table: str) -> bool:
    """Whether a sink still has to get commits that are in files of a table. Args: table: the participant's name."""
    for name, sink in pipeline.sinks.items():
        reads = {"rows": (POINT,), "changes": (POINT, CHANGES), "route": (sink.route,)}[sink.what]
        if table in reads and Deliverer(settings, pipeline, name).lacks_commits():
            return True
    return False
