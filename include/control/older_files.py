"""Says whether somebody still needs files of a table's earlier versions, so that VACUUM must wait."""

from __future__ import annotations

from include.control.deliveries import Deliverer
from include.lake.ledger import Ledger
from include.participants.catalog import Catalog
from include.participants.heads import heads_of
from include.participants.outbox import CHANGES
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
    if name in (catalog.point.name, CHANGES) and _a_sink_waits(settings, pipeline):
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


def _a_sink_waits(settings: Settings, pipeline: Pipeline) -> bool:
    return any(Deliverer(settings, pipeline, one.sink).lacks_commits() for one in Catalog.of(pipeline).after)
