"""The audit's pure checks: every kind of damage to a chain of batches is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import duckdb
import pytest

from include.audit.audited_table import Audited, Reach
from include.audit.batches import (
    archived_findings,
    batch_findings,
    beside_findings,
    cancelled_findings,
    cancelled_on_record,
    chain_findings,
    counts_on_record,
    foreign_findings,
    foreign_on_record,
)
from include.audit.changes import TARGET
from include.audit.expected_rows import compare_rows
from include.audit.reach import applied_beside, applied_to_target, may_be_of_gone_topic
from include.lake.log_entry import LogEntry
from include.pipeline_file import Pipeline
from include.protocol.backfill import Backfill
from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_records import BackfillRecord, BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit
from tests.support.batches import batch, committed, landed, merged, source
from tests.support.tables_before import begun_with, events_of

SECOND = GenerationStarted(2, {TopicPartition("t", 0): 20}, {"t": "id-t"}, "cluster", "committed", "why", "me")


def entry(version: int, of: Batch | None = None, operation: str = "MERGE", begun: GenerationStarted | None = None):
    commit = replace(landed(of), table_version=version) if of else None
    return LogEntry(
        version, "2026-01-01T00:00:00+00:00", operation, "engine", of is not None or begun is not None, commit, begun
    )


def sound() -> list[LogEntry]:
    """Two batches, a fence, and two more in the next generation."""
    return [
        entry(0, operation="CREATE TABLE"),
        entry(1, batch(0)),
        entry(2, batch(1)),
        entry(3, begun=SECOND),
        entry(4, batch(0, ("t", 0, 20, 25), generation=2)),
        entry(5, operation="OPTIMIZE"),
        entry(6, batch(1, ("t", 0, 25, 30), generation=2)),
    ]


def findings(entries: list[LogEntry]) -> str:
    found = [*chain_findings("p", entries, LedgerState()), *foreign_findings("p", entries)]
    return " | ".join(map(str, found))


def test_a_sound_log_has_no_findings() -> None:
    assert findings(sound()) == ""
    assert findings(sound()[2:]) == ""  # Delta's log clean-up has taken the oldest commits


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda log: log.pop(4), "t-0[25, 30) does not start at offset 20"),
        (lambda log: log.insert(2, entry(9, batch(0))), "batch 0 is in the target's log 2 times"),
        (lambda log: log.append(entry(7, batch(3, ("t", 0, 30, 31), generation=2))), "batch 3 follows batch 1"),
        (lambda log: log.append(entry(7, batch(2, ("t", 0, 31, 33), generation=2))), "does not start at offset 30"),
        (lambda log: log.append(entry(7, batch(2, ("t", 0, 29, 33), generation=2))), "does not start at offset 30"),
        (lambda log: log.append(entry(7, batch(2))), "landed after its generation was fenced"),
        (lambda log: log.append(entry(7, operation="DELETE")), "another writer changed the table's rows: DELETE"),
        (lambda log: log.append(entry(7, operation="RESTORE")), "another writer changed the table's rows: RESTORE"),
    ],
)
def test_damage_to_the_log_is_found(damage: Callable[[list[LogEntry]], object], says: str) -> None:
    log = sound()
    damage(log)
    assert says in findings(log)


def test_a_foreign_change_before_the_fence_is_on_record() -> None:
    log = sound()
    log.insert(2, entry(2, operation="UPDATE"))
    assert findings(log) == ""
    assert ["UPDATE" in line for line in foreign_on_record(log)] == [True]


def record(**changes: object) -> BatchRecord:
    commit = replace(committed(batch(1)), table_version=2, **changes)
    return BatchRecord(batch(1), commit=commit)


@pytest.mark.parametrize(
    ("record", "commit", "quarantined", "says"),
    [
        (record(), None, 0, "the target's log has no such commit"),
        (record(), landed(batch(1, ("t", 0, 10, 21))), 1, "the commit's offset ranges are not the plan's"),
        (record(), replace(landed(batch(1)), table_version=3), 1, "the ledger says version 2"),
        (record(), replace(landed(batch(1)), merge=merged(6)), 1, "the MERGE counted other rows"),
        (record(), landed(batch(1)), 0, "the quarantine holds 0 records, the commit says 1"),
        (record(counts=BatchCounts(10, 3, 3, 2, 1, 1)), landed(batch(1)), 1, "the ledger counted"),
        (BatchRecord(batch(1, ("t", 0, 10, 12))), landed(batch(1, ("t", 0, 10, 12))), 1, "were read from ranges of 2"),
    ],
)
def test_damage_to_a_batch_is_found(record: BatchRecord, commit, quarantined: int, says: str) -> None:
    found = " | ".join(str(f) for f in batch_findings(record, commit, sound(), quarantined))
    assert says in found


def test_a_sound_batch_and_one_whose_commit_has_expired_have_no_findings() -> None:
    good = replace(landed(batch(1)), table_version=2)
    assert list(batch_findings(record(), good, sound(), 1)) == []
    assert list(batch_findings(None, good, sound(), 1)) == []
    assert list(batch_findings(record(), None, sound()[3:], 0)) == []
    since = [entry(9, begun=SECOND)]  # the quarantine was rolled back; a person has filled it again, or accepts it
    assert list(batch_findings(None, good, since, 0)) == []


def test_a_table_beside_the_target_that_does_not_add_up_is_found() -> None:
    good = landed(batch(1))
    history = replace(good, metadata=replace(good.metadata, role="history", history="scd2"), merge=merged(4, 4))

    def log(commit: LandedCommit) -> list[LogEntry]:
        return [replace(entry(commit.table_version), own=True, landed=commit)]

    assert list(beside_findings("p", "history", log(history), is_merged=True)) == []
    doubled = log(replace(history, merge=merged(9, 4)))
    [wrong] = beside_findings("p", "history", doubled, is_merged=True)
    assert "the MERGE counted other rows" in wrong.what
    assert list(counts_on_record(doubled)) == []
    since = [*doubled, entry(9, begun=SECOND)]  # a person has looked at it, or filled a new table
    assert list(beside_findings("p", "history", since, is_merged=True)) == []
    [told] = counts_on_record(since)
    assert "the MERGE counted other rows" in told


def test_an_archive_that_lacks_records_of_a_batch_is_found() -> None:
    good = landed(batch(1))
    log = [replace(entry(good.table_version), own=True, landed=good)]
    read = good.metadata.counts.read
    assert list(archived_findings("p, archive", {(1, 1): read, (-1, 0): 5}, [log])) == []
    [found] = archived_findings("p, archive", {(1, 1): read - 1}, [log, []])
    assert f"holds {read - 1} records of the batch, its commit says {read}" in found.what
    assert list(archived_findings("p, archive", {(1, 1): 2 * read}, [log, log])) == []  # the landing has one, too
    assert list(archived_findings("p, archive", {}, [[*log, entry(9, begun=SECOND)]])) == []  # it is on record


@pytest.mark.parametrize(
    ("recreated", "verdicts"),
    [
        ((), {1: "equal", 2: "other values", 3: "not from the source", 4: "not from the source"}),
        (("t",), {1: "equal", 2: "beyond reach", 3: "beyond reach", 4: "not from the source"}),
    ],
)
def test_what_a_replay_wrote_of_a_topic_that_was_created_anew_is_beyond_reach(
    recreated: tuple[str, ...], verdicts: dict[int, str]
) -> None:
    """Rows 1 to 3 are a replay's, row 4 is a batch's."""
    ranges = (OffsetRange("t", 0, 0, 10),)
    replay = Backfill("p", 1, "r", (ranges,), {"t": "id-t"}, "cluster", "same", {}, "why", "me", records="replay_1")
    state = LedgerState(generations=(replace(SECOND, recreated=recreated),), backfills={1: BackfillRecord(replay)})
    sections = {
        "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, seq BIGINT, v STRING"},
        "change": {"keys": ["id"], "order_by": ["seq"]},
        "target": {"table": "lake://silver/p"},
    }
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE target AS SELECT id, 1 AS seq, 'right' AS v, {generation: CASE WHEN id < 4 THEN -1 ELSE 2 END, "
        "topic: 't', partition: 0, \"offset\": id, "
        "deleted: false} AS _lakemark FROM range(1, 5) r(id)"
    )
    database.execute(
        "CREATE TABLE changes AS SELECT id AS c0, 1 AS c1, CASE id WHEN 1 THEN 'right' ELSE 'another' END AS c2, "
        "{o0: 1::BIGINT, topic: 't', partition: 0, \"offset\": id} AS _order, false AS _deleted, "
        "NULL::VARCHAR[] AS _absent, -2 AS _route FROM range(1, 3) r(id)"
    )
    database.execute("CREATE TABLE records AS SELECT 't' AS topic, 0 AS partition, n AS \"offset\" FROM range(10) r(n)")
    replayed = may_be_of_gone_topic(state, [], source({("t", 0): (0, 10)}))
    pipeline = Pipeline.model_validate({"name": "p", **sections})
    reach = Reach(held=ranges, replayed=replayed)
    table = Audited(pipeline, "lake://silver/p", is_point=True, is_history=False, route=TARGET, reach=reach)
    table.take(database, "target")
    compare_rows(database, table)
    found = database.execute("SELECT key, verdict FROM compared").fetchall()
    assert {int(key.strip("(,)")): verdict for key, verdict in found} == verdicts


def test_the_chunks_of_a_cancelled_backfill_that_are_beside_the_target_only_are_found() -> None:
    chunk = landed(batch(0, generation=-1))
    entries = [replace(entry(chunk.table_version), own=True, landed=chunk)]
    assert list(cancelled_findings("p", "history", entries, never_landed=set())) == []
    [found] = cancelled_findings("p", "history", entries, never_landed={chunk.metadata.batch.key})
    assert "backfill 1 was cancelled" in found.what
    assert list(cancelled_on_record("history", entries, never_landed={chunk.metadata.batch.key})) == []
    since = [*entries, entry(9, begun=SECOND)]
    assert list(cancelled_findings("p", "history", since, never_landed={chunk.metadata.batch.key})) == []
    [told] = cancelled_on_record("history", since, never_landed={chunk.metadata.batch.key})
    assert told.startswith("history, version ")
    assert found.what.endswith(told.rpartition(": ")[2])


def test_what_was_wrong_in_a_table_beside_the_target_is_on_record_by_its_name() -> None:
    doubled = replace(landed(batch(0)), merge=merged(9, 4), table_version=2)
    wrong = [entry(1, operation="UPDATE"), replace(entry(2), own=True, landed=doubled)]
    assert [*foreign_on_record(wrong, "history"), *counts_on_record(wrong, "history")] == []
    since = [*wrong, entry(9, begun=SECOND)]
    assert [line.startswith("history, version 1 is a UPDATE") for line in foreign_on_record(since, "history")] == [True]
    assert ["history, version 2: " in line for line in counts_on_record(since, "history")] == [True]


def test_a_table_that_was_made_anew_counts_no_batch() -> None:
    good = landed(batch(0))
    anew = replace(good, metadata=replace(good.metadata, made_from=3), merge=merged(9, 4), table_version=2)
    since = [replace(entry(2), own=True, landed=anew), entry(9, begun=SECOND)]
    assert list(counts_on_record(since, "history")) == []


def test_a_batch_that_a_repair_has_taken_back_is_no_longer_in_the_table() -> None:
    """Nothing of it is missing there."""
    state = fold([begun_with(batch(0)), *events_of(batch(0), batch(1))])
    extent = source({("t", 0): (0, 20)})
    both = [replace(landed(batch(n)), table_version=n + 1) for n in range(2)]
    repair = replace(both[1].metadata, batch=batch(2), made_from=1)
    commits = [*both, replace(both[1], metadata=repair, table_version=3)]
    to_target = applied_to_target(state, [], extent)
    found = [applied.batch.batch_id for applied in applied_beside(state, to_target, commits, since=None, source=extent)]
    assert found == [0]


def test_the_advice_about_a_foreign_commit_can_be_typed() -> None:
    foreign = replace(entry(9), operation="WRITE")
    [found] = foreign_findings("p", [foreign], "history")
    assert found.where.startswith("p, history, version 9")
    assert "`lakemark run p`" in found.action
    assert "BATCH" not in found.action
