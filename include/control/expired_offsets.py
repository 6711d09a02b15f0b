"""Says who else holds records that Kafka no longer has."""

from __future__ import annotations

from include.control.settling import Settler
from include.lake.ledger import Ledger
from include.lake.table_log import TableLog
from include.pipeline_file import LANDING
from include.protocol.errors import OffsetsExpired
from include.protocol.handover import in_archive_too, only_in_archive
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange
from include.sources.archive import records_in


def with_other_holders(
    error: OffsetsExpired, settler: Settler, state: LedgerState, source: SourceExtent
) -> OffsetsExpired:
    """The same error, with other advice if an archive holds what Kafka has dropped."""
    pipeline, tables = settler.pipeline, settler.tables
    if pipeline.merge_every is not None:
        return error
    # The ledger of a landing, if the file once had `merge_every`.
    landing = Ledger(tables.ledger.beside(f"{pipeline.name}{LANDING}"))
    found = only_in_archive(error, landing.recent(), state, source)
    archive = TableLog.open(tables.archive) if tables.archive is not None else None
    if found is not error or archive is None:
        return found
    starts = {tp: extent.log_start_offset for tp, extent in source.partitions.items()}
    gone = [OffsetRange(*tp, at, starts[tp]) for tp, at in state.next_offsets.items() if at < starts.get(tp, at)]
    is_there = gone and records_in(archive.table, gone, state.topic_ids)
    return in_archive_too(error, pipeline.name) if is_there else error
