"""Reads where the tables before the point stand."""

from __future__ import annotations

from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.settings import Settings


def heads_of(settings: Settings, pipeline: Pipeline, state: LedgerState) -> dict[str, Position]:
    """Where every table before the point stands now.

    Args:
        state: the ledger's.

    Raises:
        LedgerBehindTarget: a table says that the generation has ended. TableDamaged: see there.
    """
    found = {}
    for participant in Catalog.of(pipeline).before:
        log = TableLog.open(participant.uri(settings))
        found[participant.name] = NOWHERE if log is None else log.position(pipeline.name, state.generation, state.form)
    return found
