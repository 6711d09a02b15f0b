"""What the page tells of the past: trends and a timeline, from the ledger alone. Real Delta files, no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.monitoring.ledger_pages import LedgerPages
from include.monitoring.ledger_reader import LedgerReader
from include.monitoring.timeline import timeline
from include.monitoring.trends import POINTS, span, trend
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BackfillEnded,
    BackfillPlanned,
    BatchPlanned,
    GenerationStarted,
)
from include.protocol.proofs import Look, PipelineAudited
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.local.monitoring.test_ledger_reader_and_health import FAILED, START, backfill
from tests.support.batches import batch, committed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def event(minute: int, name: str, **details: Any) -> dict[str, Any]:
    return {"recorded_at": NOON + timedelta(minutes=minute), "event": name, "details": details}


def test_a_trend_sums_up_what_batches_did_and_shows_the_worst_lag() -> None:
    ranges = [{"start_offset": 0, "end_offset": 10}, {"start_offset": 5, "end_offset": 10}]
    counts = {"read": 15, "applied": 9, "quarantined": 6}
    rows = [
        event(0, "planned", ranges=ranges, left=100),
        event(0, "planned", ranges=ranges, left=20),
        event(0, "attempt_ended", outcome="applied", phase_seconds={"read": 1.0, "merge": 2.0}),
        event(0, "attempt_ended", outcome="RetryableError", phase_seconds={"read": 99.0}),
        event(0, "attempt_ended", outcome="applied", phase_seconds={"merge": 1.0}),
        event(1, "committed", counts=counts),
        event(1, "committed", counts=counts),
        event(59, "planned", ranges=ranges),  # a Lakemark from before does not say what was left
        event(60, "committed", counts=counts),  # after the end
        event(-1, "committed", counts=counts),
    ]
    first, second, *_, last = trend(rows, NOON, NOON + timedelta(minutes=POINTS))
    assert (first["lag_records"], first["lag_at_least"]) == (115, False)
    assert (first["seconds"], first["seconds_max"], first["batches"]) == (2.0, 3.0, 0)
    assert (second["batches"], second["read"], second["quarantined"], second["lag_records"]) == (2, 30, 12, None)
    assert (last["lag_records"], last["lag_at_least"]) == (15, True)


def test_the_buckets_of_a_trend_do_not_move_with_every_look() -> None:
    first, second = (span(24, NOON + timedelta(seconds=seconds)) for seconds in (1, 100))
    assert first == second
    assert first[0] <= NOON + timedelta(seconds=1) - timedelta(hours=23) < first[1]
    assert first[1] - first[0] == timedelta(hours=24)


def test_a_timeline_tells_who_did_what_and_why_and_what_went_wrong(tmp_path: Path) -> None:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    skipped = GenerationStarted(
        3, {TopicPartition("t", 0): 90}, {}, "c", "committed", "lost", "bob", skipped=(OffsetRange("t", 0, 10, 90),)
    )
    looks = {"target": {"log": Look(1, 0, "x", findings=2), "rows": Look(1, 0, "x", findings=1)}}
    for events in (
        [BatchPlanned(batch(0)), AttemptStarted(1, 0, "a", "h", "cli"), AttemptEnded(1, 0, "a", "applied")],
        [committed(batch(0)), BatchPlanned(batch(1)), AttemptStarted(1, 1, "b", "h", "cli"), FAILED],
        [BackfillPlanned(backfill(1))],
        [BackfillEnded(1, "cancelled", "ada")],
        [START],
        [skipped],
        [PipelineAudited(3, -1, "cli eve", looks)],
    ):
        ledger.append(lambda state, events=events: events)
    rows = LedgerPages(ledger.uri, LedgerReader(ledger.uri).digest()).actions_and_errors(20)
    discarded = [{"at": "2020-01-01T00:00:00+00:00", "records": 7, "reason": "a test", "resolved_by": "eve"}]
    told = timeline(rows, discarded, limit=20)
    assert [(line["kind"], line["what"], line["who"], line["why"], line["is_error"]) for line in told] == [
        ("audit", "audit by rows: findings in target 3", "cli eve", None, True),
        ("skip", "generation 3 began from committed; 80 offsets were given up", "bob", "lost", False),
        ("reset", "generation 2 began from committed", "ada", "why", False),
        ("backfill", "backfill 1 ended: cancelled", "ada", None, False),
        ("backfill", "backfill 1 was planned: 2 chunks, into the table", "airflow run", "late fix", False),
        ("error", f"batch 1: {FAILED.problem}", "", None, True),
        ("discard", "7 records of the quarantine", "eve", "a test", False),
    ]
    assert len(timeline(rows, discarded, limit=2)) == 2
