"""What a backfill would read and how long it would take, before anything is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from include.control.backfill_planner import BackfillPlanner, chosen
from include.control.backfill_request import BackfillRequest
from include.control.quarantine import Quarantine
from include.control.settling import Settler
from include.control.sink_decisions import gets_again
from include.lake.table_log import TableLog
from include.protocol.backfill import Backfill
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.ranges import OffsetRange, TopicPartition

_BATCHES_TO_ESTIMATE_FROM = 20


def preview_of(settler: Settler, request: BackfillRequest) -> JsonObject:
    """What the backfill would read, as data. Writes nothing. Raises as `Backfills.plan` does.

    Keys: pipeline, into, ranges, records_max, chunks, estimated_seconds (one chunk after the other; null while no batch
    has been measured), sinks (what each gets, in words).
    """
    if request.source == "quarantine":
        return _preview_of_replay(settler, request)
    before = TableLog.open(settler.tables.target)
    state = settler.ledger.state()
    planned = BackfillPlanner(settler).planned(request, before, state, request_id="preview", reason="", requested_by="")
    seconds = _seconds_per_record(state.batches)
    return {
        "pipeline": planned.pipeline,
        "into": planned.into,
        "ranges": [r.as_argument() for r in _whole(planned)],
        "records_max": planned.records_max,
        "chunks": len(planned.chunks),
        "estimated_seconds": None if seconds is None else round(seconds * planned.records_max, 1),
        "sinks": gets_again(settler.pipeline, request.deliver),
    }


def _preview_of_replay(settler: Settler, request: BackfillRequest) -> JsonObject:
    planner = BackfillPlanner(settler)
    planner.verify_not_purged(request.into, replays=True)
    records = Quarantine.of(settler, with_bytes=False).count_pending(chosen(request))
    seconds = _seconds_per_record(settler.ledger.state().batches)
    return {
        "pipeline": settler.pipeline.name,
        "into": request.into,
        "ranges": [r.as_argument() for r in request.ranges],
        "records_max": records,
        "chunks": -(-records // planner.chunk_size(request)),
        "estimated_seconds": None if seconds is None else round(seconds * records, 1),
        "sinks": gets_again(settler.pipeline, request.deliver),
    }


def preview_lines(facts: JsonObject) -> Iterator[str]:
    """A preview as lines for people."""
    seconds = facts["estimated_seconds"]
    yield f"{facts['records_max']:,} records at most, in {facts['chunks']} chunk{'s' * (facts['chunks'] != 1)}, " + (
        "into a new table that takes the target's place" if facts["into"] == "new" else "into the target itself"
    )
    if seconds is None:
        yield "no batch of this generation has been measured yet, so there is no estimate"
    else:
        yield f"about {seconds:,.0f} s of work, estimated from the last batches"
    yield from (f"  {r}" for r in facts["ranges"])
    yield from (f"  sink {name}: {gets}" for name, gets in facts["sinks"].items())


def _whole(backfill: Backfill) -> list[OffsetRange]:
    """The backfill's ranges, one per partition."""
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for ranges in backfill.chunks:
        for r in ranges:
            starts.setdefault(r.topic_partition, r.start_offset)
            ends[r.topic_partition] = r.end_offset
    return [OffsetRange(*tp, start, ends[tp]) for tp, start in sorted(starts.items())]


def _seconds_per_record(records: Sequence[BatchRecord]) -> float | None:
    """The time that the last batches took, all phases together; None if no batch was measured."""
    seconds = read = 0.0
    for record in records[-_BATCHES_TO_ESTIMATE_FROM:]:
        applied = [a for a in record.attempts if a.outcome == "applied"]
        if applied and record.commit and record.commit.counts:
            seconds += sum(applied[-1].phase_seconds.values())
            read += record.commit.counts.read
    return seconds / read if read else None
