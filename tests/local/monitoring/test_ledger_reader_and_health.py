"""What the page knows of pipelines: ledgers in pages and digests, health. Real Delta files, no Kafka, no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.monitoring.health import Health, Scheduler, SetAside, judge
from include.monitoring.ledger_digest import Sums
from include.monitoring.ledger_pages import LedgerPages
from include.monitoring.ledger_reader import LedgerReader
from include.protocol.backfill import Backfill
from include.protocol.errors import is_terminal
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BackfillEnded,
    BackfillPlanned,
    BatchPlanned,
    GenerationStarted,
)
from include.protocol.ledger_fold import fold
from include.protocol.ledger_records import AttemptRecord
from include.protocol.proofs import Look
from include.protocol.ranges import OffsetRange, TopicPartition
from tests.support.batches import batch, committed
from tests.support.long_ledgers import even_batches, write_ledger

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FAILED = AttemptEnded(1, 1, "b", "OffsetsExpired", {"read": 0.5}, "gone. What to do: skip them")
START = GenerationStarted(2, {TopicPartition("t", 0): 10}, {"t": "id-t"}, "cluster", "committed", "why", "ada")


def backfill(number: int) -> Backfill:
    chunks = ((OffsetRange("t", 0, 0, 5),), (OffsetRange("t", 0, 5, 10),))
    return Backfill("p", number, f"r{number}", chunks, {"t": "id-t"}, "cluster", "same", {}, "late fix", "airflow run")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(LakeUri(str(tmp_path / "l")))
    begun = [BatchPlanned(batch(0)), AttemptStarted(1, 0, "a", "h", "airflow dags/d/runs/r/tasks/merge?try_number=2")]
    ledger.append(lambda state: [*begun, AttemptEnded(1, 0, "a", "applied", {"read": 1.5}), committed(batch(0))])
    ledger.append(lambda state: [BatchPlanned(batch(1)), AttemptStarted(1, 1, "b", "h", "cli"), FAILED])
    return ledger


def pages(ledger: Ledger) -> LedgerPages:
    return LedgerPages(ledger.uri, LedgerReader(ledger.uri).digest())


def test_a_page_of_batches_has_their_attempts_and_their_commits(ledger: Ledger) -> None:
    second, first = pages(ledger).batches(before=None, limit=10)
    assert (second["batch_id"], second["ranges"], second["commit"]) == (1, [["t", 0, 10, 20]], None)
    [attempt] = second["attempts"]
    assert (attempt["outcome"], attempt["problem"], attempt["log"]) == ("OffsetsExpired", FAILED.problem, None)
    [attempt] = first["attempts"]
    assert (attempt["started_by"], attempt["log"]) == ("airflow", "dags/d/runs/r/tasks/merge?try_number=2")
    assert (attempt["phase_seconds"], first["commit"]["counts"]["read"]) == ({"read": 1.5}, 10)
    assert [b["batch_id"] for b in pages(ledger).batches(before=1, limit=10)] == [0]
    ledger.append(lambda state: [START])
    assert pages(ledger).batches(before=None, limit=10) == []


def test_a_page_shows_nothing_that_its_digest_has_not_seen(ledger: Ledger) -> None:
    """So the figures and the lists of one answer are from one moment, however long the answer takes."""
    before = pages(ledger)
    told = (before.batches(None, 10), before.generations(), before.backfills(), before.actions_and_errors(10))
    ledger.append(lambda state: [AttemptStarted(1, 1, "z", "h", "cli"), BackfillPlanned(backfill(1)), START])
    assert (before.batches(None, 10), before.generations(), before.backfills(), before.actions_and_errors(10)) == told
    assert len(pages(ledger).generations()) == 2


def test_a_digest_reads_only_what_is_new(ledger: Ledger) -> None:
    reader = LedgerReader(ledger.uri)
    digest = reader.digest()
    assert digest.pending is not None
    assert (digest.pending.attempts[-1].outcome, digest.sums.commits, digest.sums.records["applied"]) == (
        "OffsetsExpired",
        1,
        4,
    )
    assert digest.committed_offsets == {TopicPartition("t", 0): 10}
    ledger.append(
        lambda state: [BackfillPlanned(backfill(1)), BackfillPlanned(backfill(2)), BackfillEnded(1, "applied", "x")]
    )
    ledger.append(lambda state: [AttemptStarted(-2, 1, "c", "h", "cli"), AttemptEnded(-2, 1, "c", "applied")])
    assert reader.digest() == LedgerReader(ledger.uri).digest()
    assert reader.digest().open_backfills == (2,)
    two, one = pages(ledger).backfills()
    assert (two["number"], two["outcome"], two["chunks"]) == (
        2,
        None,
        [[False, ["t", 0, 0, 5]], [True, ["t", 0, 5, 10]]],
    )
    assert (one["number"], one["outcome"], one["reason"]) == (1, "applied", "late fix")
    ledger.append(lambda state: [START])
    digest = reader.digest()
    assert (digest.generation, digest.last, digest.sums, digest.by_generation[1].commits) == (2, None, Sums(), 1)
    second, first = pages(ledger).generations()
    assert second == {
        "generation": 2,
        "at": second["at"],
        "origin": "committed",
        "reason": "why",
        "started_by": "ada",
        "skipped": [],
        "commits": 0,
        "records": {},
    }
    assert (first["generation"], first["commits"], first["records"]["applied"]) == (1, 1, 4)


def test_a_ledger_that_was_made_anew_is_read_from_its_start(ledger: Ledger) -> None:
    reader = LedgerReader(ledger.uri)
    assert reader.digest().sequence == 7
    ledger.set_aside()
    assert reader.digest().sequence == 0
    ledger.append(lambda state: [replace(START, generation=3)])
    assert (reader.digest().generation, reader.digest().sequence) == (3, 1)


def test_a_long_ledger_is_read_in_pages(tmp_path: Path) -> None:
    write_ledger(tmp_path / "l", even_batches("p", "t", 1000))
    reader = LedgerReader(LakeUri(str(tmp_path / "l")))
    state, digest = fold(Ledger(reader.uri).events()), reader.digest()
    assert (digest.sums.commits, digest.next_offsets) == (1000, state.next_offsets)
    found = LedgerPages(reader.uri, digest)
    assert [b["batch_id"] for b in found.batches(None, 3)] == [999, 998, 997]
    assert [b["batch_id"] for b in found.batches(500, 2)] == [499, 498]
    assert [b["batch_id"] for b in found.batches(1, 5)] == [0]


PROVEN = {"log": Look(1, 3, "2026-01-01T12:00:00+00:00", findings=0)}
FOUND = {**PROVEN, "rows": Look(1, 3, "2026-01-01T12:00:00+00:00", findings=2)}
NEVER_PROVEN = Health("unproven", "never proven: history. What to do: `lakemark audit NAME` proves it")
FINDINGS = Health(
    "findings", "the last audit has findings: history 2. What to do: `lakemark audit NAME` says what is wrong"
)
HALF_ASIDE = Health(
    "quarantine",
    "batch 7 set 5 of its 10 records aside. What to do: `lakemark quarantine list NAME` says why; correct the source "
    "or the pipeline file, then replay or discard them",
)
ERROR = AttemptRecord("a", "h", "cli", "RetryableError", problem="Kafka did not answer")
GROUP_FAILED, OWN_FAILED = (
    Scheduler(failed_run=run, failed_at=NOON, note="the note", failed_dag=dag)
    for run, dag in (("a", "lakemark_group__g"), ("b", "lakemark__p"))
)
TERMINAL = AttemptRecord("a", "h", "cli", "OffsetsExpired", problem="gone")


@pytest.mark.parametrize(
    ("expected", "facts"),
    [
        (Health("broken", "damaged"), {"problem": "damaged", "scheduler": Scheduler(running=True)}),
        (Health("failed", "the note"), {"attempt": ERROR, "scheduler": Scheduler(failed_run="r", note="the note")}),
        (Health("failed", "the note"), {"scheduler": Scheduler(failed_run="r", failed_at=NOON, note="the note")}),
        (Health("ok"), {"scheduler": Scheduler(failed_run="r", failed_at=NOON - timedelta(hours=1), note="the note")}),
        (Health("failed", "gone"), {"attempt": TERMINAL}),
        (Health("retrying", "Kafka did not answer"), {"attempt": ERROR}),
        (Health("retrying", "gone"), {"attempt": TERMINAL, "scheduler": Scheduler(running=True, failed_run="r")}),
        (Health("running"), {"scheduler": Scheduler(running=True, failed_run="r", note="of the run before")}),
        (Health("ok"), {"waiting_seconds": 60.0, "stale_after_seconds": 60.0}),
        (Health("ok"), {"waiting_seconds": 60.0}),
        (Health("ok"), {"stale_after_seconds": 60.0}),
        (
            HALF_ASIDE,
            {"set_aside": SetAside(7, read=10, quarantined=5, waiting=1), "scheduler": Scheduler(running=True)},
        ),
        (Health("ok"), {"set_aside": SetAside(7, read=10, quarantined=4, waiting=9)}),
        (Health("ok"), {"set_aside": SetAside(7, read=10, quarantined=9, waiting=0)}),  # a person has seen to them
        (Health("ok"), {"set_aside": SetAside(7, read=0, quarantined=0, waiting=5)}),
        (Health("new"), {"committed_at": None, "proofs": {"history": {}}}),
        (Health("ok"), {"proofs": {"history": PROVEN, "target": PROVEN}}),
        (NEVER_PROVEN, {"proofs": {"history": {}, "target": PROVEN}}),
        (FINDINGS, {"proofs": {"history": FOUND, "target": {}}, "attempt": ERROR}),
        (Health("failed", "gone"), {"proofs": {"history": FOUND}, "attempt": TERMINAL}),
        (Health("running"), {"proofs": {"history": {}}, "scheduler": Scheduler(running=True)}),
        (Health("paused", "the DAG is paused: no run starts by itself"), {"scheduler": Scheduler(paused=True)}),
    ],
)
def test_health_is_the_worst_state_and_says_why(expected: Health, facts: dict) -> None:
    nothing = {"problem": None, "attempt": None, "waiting_seconds": None, "stale_after_seconds": None}
    assert judge(**{**nothing, "committed_at": NOON, "scheduler": Scheduler(), **facts}) == expected


@pytest.mark.parametrize(
    ("own", "group", "expected"),
    [
        (Scheduler(), Scheduler(paused=True), Scheduler(paused=True)),
        (Scheduler(running=True), Scheduler(running=True), Scheduler(running=True)),
        (Scheduler(), Scheduler(running=True), Scheduler()),  # whether it has a turn now, nobody knows
        (Scheduler(), GROUP_FAILED, GROUP_FAILED),
        (Scheduler(paused=True), GROUP_FAILED, replace(GROUP_FAILED, paused=True)),
        (Scheduler(), replace(GROUP_FAILED, running=True), replace(GROUP_FAILED, running=True)),
        (OWN_FAILED, GROUP_FAILED, OWN_FAILED),
    ],
)
def test_a_failed_run_of_a_group_has_failed_for_its_pipelines(
    own: Scheduler, group: Scheduler, expected: Scheduler
) -> None:
    assert own.in_group(group) == expected


def test_a_stale_table_says_for_how_long() -> None:
    health = judge(None, None, NOON, 3700.0, 3600.0, Scheduler(paused=True))
    assert health.state == "stale"
    assert "waited for 3,700 s" in health.why


def test_terminal_is_what_the_error_classes_say() -> None:
    others = ("OutcomeUnknownError", "RetryableError", "applied", None)
    assert [is_terminal(name) for name in ("OffsetsExpired", "SchemaChanged", *others)] == [True] * 2 + [False] * 4
