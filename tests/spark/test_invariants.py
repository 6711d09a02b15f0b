"""The invariants of docs/design.md, section 2, on a real broker, real Spark and real Delta; each test names its own."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from deltalake import CommitProperties, DeltaTable, Transaction

import spark_jobs.attempt
from include.pipeline_file import Pipeline
from include.protocol.batch import FENCE
from include.protocol.errors import (
    BatchMismatch,
    FencedGeneration,
    LedgerBehindTarget,
    OffsetsExpired,
    OutcomeUnknownError,
    RangeGap,
    TopicRecreated,
)
from include.protocol.ledger_events import BatchCommitted, BatchPlanned
from include.protocol.planning import NewBatch, PendingBatch
from include.target_log import TableLog, landed_and_marker
from tests.support.world import World, as_dict, newest_by_key, wait_until


def changes(ids: range, seq: int, name: str = "n", op: str = "u") -> list[dict[str, Any]]:
    return [{"id": i, "seq": seq, "name": f"{name}{i}", "op": op} for i in ids]


def landed_commits(world: World, pipeline: Pipeline) -> list[int]:
    log = TableLog.open(world.steps(pipeline).target_path)
    return [c.metadata.batch.batch_id for c in log.landed_commits(pipeline.name, 1)] if log else []


def test_a_drained_topic_is_the_newest_change_of_every_key(world: World) -> None:
    topic = world.topic(partitions=3)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 40}})
    world.produce(topic, changes(range(50), 2) + changes(range(50), 1, "old") + changes(range(20), 3, "new"), 3)
    assert world.drain(pipeline) == 3
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert world.run_batch(pipeline) is None


def test_i1_a_recorded_plan_is_used_as_it_stands(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    first = world.steps(pipeline).plan()
    assert isinstance(first, NewBatch)
    world.produce(topic, changes(range(10), 2))
    assert world.steps(pipeline).plan() == PendingBatch(first.batch)
    world.attempt(pipeline, 0)
    assert {row["seq"] for row in world.rows(pipeline)} == {1}
    world.steps(pipeline).settle(0)
    second = world.steps(pipeline).plan()
    assert isinstance(second, NewBatch)
    assert [r.start_offset for r in second.batch.ranges] == [r.end_offset for r in first.batch.ranges]


def test_i2_rows_marker_and_ranges_are_one_commit(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.run_batch(pipeline)
    batch = world.steps(pipeline).ledger.state().batches[0].batch
    path = world.steps(pipeline).target_path
    marker, landed = landed_and_marker(path, batch)
    assert marker == 0
    assert landed is not None
    assert landed.metadata.batch == batch
    assert landed.rows_applied == 10
    before = DeltaTable(path, version=landed.table_version - 1)
    assert before.transaction_version(batch.app_id) is None
    assert before.file_uris() == []


def test_i3_a_batch_that_landed_changes_nothing(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    assert world.run_batch(pipeline).outcome == "applied"
    version = world.version(pipeline)
    assert world.attempt(pipeline, 0).outcome == "already_applied"
    assert world.version(pipeline) == version


def test_i3_other_ranges_under_a_landed_id_are_refused(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.run_batch(pipeline)
    ledger = world.steps(pipeline).ledger
    batch = ledger.state().batches[0].batch
    other = replace(batch, ranges=tuple(replace(r, end_offset=r.end_offset + 1) for r in batch.ranges))
    shutil.rmtree(ledger.path)  # a ledger that was replaced by another one
    ledger.append(lambda state: [BatchPlanned(other)])
    with pytest.raises(BatchMismatch):
        world.attempt(pipeline, 0)
    with pytest.raises(BatchMismatch):
        world.steps(pipeline).settle(0)


def test_i4_a_batch_before_its_predecessor_is_refused(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 10}})
    world.produce(topic, changes(range(30), 1))
    first = world.steps(pipeline).plan().batch
    # A ledger that says more than the target holds (the target was replaced, say).
    said = BatchCommitted(1, 0, first.fingerprint, 1, None, None, None)
    world.steps(pipeline).ledger.append(lambda state: [said])
    world.steps(pipeline).plan()
    with pytest.raises(RangeGap):
        world.attempt(pipeline, 1)
    assert world.rows(pipeline) == []


def test_i5_of_two_attempts_at_once_one_commits(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(200), 1))
    world.run_batch(pipeline)  # so that both race on rows, and none on the table's creation
    world.produce(topic, changes(range(200), 2))
    world.steps(pipeline).plan()
    with ThreadPoolExecutor(2) as pool:
        attempts = [pool.submit(world.attempt, pipeline, 1) for _ in range(2)]
    assert sorted(a.result().outcome for a in attempts) == ["already_applied", "applied"]
    assert landed_commits(world, pipeline) == [1, 0]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)


def test_i5_an_attempt_that_slept_past_its_guard_changes_nothing(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.steps(pipeline).plan()

    @contextmanager
    def late_session():  # opened after the guard has said "go on"
        assert world.attempt(pipeline, 0).outcome == "applied"
        with world.session() as spark:
            yield spark

    assert world.attempt(pipeline, 0, open_session=late_session).outcome == "already_applied"
    assert landed_commits(world, pipeline) == [0]


def fence(world: World, pipeline: Pipeline, batch_app_id: str) -> None:
    """What a reset does to the generation that it ends."""
    table = DeltaTable(world.steps(pipeline).target_path)
    marker = CommitProperties(app_transactions=[Transaction(batch_app_id, FENCE)])
    table.create_write_transaction([], "append", table.schema(), commit_properties=marker)


def test_i5_an_ended_generation_never_lands(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.run_batch(pipeline)
    world.produce(topic, changes(range(20), 2))
    batch = world.steps(pipeline).plan().batch

    @contextmanager
    def fenced_meanwhile():
        fence(world, pipeline, batch.app_id)
        with world.session() as spark:
            yield spark

    with pytest.raises(FencedGeneration):  # past the guard: Delta itself ignores the write
        world.attempt(pipeline, 1, open_session=fenced_meanwhile)
    with pytest.raises(FencedGeneration):  # before: the guard
        world.attempt(pipeline, 1)
    assert {row["seq"] for row in world.rows(pipeline)} == {1}


def test_i6_a_lost_answer_is_settled_from_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.steps(pipeline).plan()
    merge = spark_jobs.attempt.merge_changes

    def answer_lost(*arguments: Any) -> bool:
        merge(*arguments)
        raise ConnectionError("the answer was lost")

    monkeypatch.setattr(spark_jobs.attempt, "merge_changes", answer_lost)
    assert world.attempt(pipeline, 0).outcome == "already_applied"
    assert landed_commits(world, pipeline) == [0]


def test_i6_a_lost_commit_is_unknown_until_the_log_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.steps(pipeline).plan()

    def connection_lost(*arguments: Any) -> bool:
        raise ConnectionError("the connection was lost")

    with monkeypatch.context() as patched:
        patched.setattr(spark_jobs.attempt, "merge_changes", connection_lost)
        with pytest.raises(OutcomeUnknownError):
            world.attempt(pipeline, 0)
    assert isinstance(world.steps(pipeline).plan(), PendingBatch)
    assert world.attempt(pipeline, 0).outcome == "applied"


def test_i6_plan_settles_what_landed_without_a_word(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.steps(pipeline).plan()
    world.attempt(pipeline, 0)  # its settle never runs
    world.produce(topic, changes(range(20), 2))
    assert world.steps(pipeline).plan().batch.batch_id == 1
    assert world.steps(pipeline).ledger.state().committed_through == 0


def delete_before(world: World, topic: str, partition: int, offset: int) -> None:
    """What retention does."""
    for future in world.admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result()


def test_i7_expired_offsets_stop_the_plan_and_the_attempt(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source={"limits": {"records_per_batch_max": 10}})
    world.produce(topic, changes(range(30), 1), 1)
    world.run_batch(pipeline)
    world.steps(pipeline).plan()
    delete_before(world, topic, 0, 15)  # batch 1 is [10, 20)
    with pytest.raises(OffsetsExpired, match="log starts at 15"):
        world.attempt(pipeline, 1)
    with pytest.raises(OffsetsExpired):
        world.steps(pipeline).plan()
    assert {row["id"] for row in world.rows(pipeline)} == set(range(10))


def test_i7_records_that_expire_during_the_read_stop_the_attempt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(30), 1), 1)
    world.steps(pipeline).plan()
    read = spark_jobs.attempt.read_records

    def retention_is_faster(*arguments: Any) -> Any:
        records = read(*arguments)
        delete_before(world, topic, 0, 7)
        return records

    monkeypatch.setattr(spark_jobs.attempt, "read_records", retention_is_faster)
    with pytest.raises(OffsetsExpired):
        world.attempt(pipeline, 0)
    assert world.rows(pipeline) == []


def test_i7_a_recreated_topic_is_another_topic(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(20), 1))
    world.run_batch(pipeline)
    world.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in world.admin.list_topics(timeout=10).topics)
    world.create_topic(topic, 2)
    world.produce(topic, changes(range(60), 2))
    with pytest.raises(TopicRecreated):
        world.steps(pipeline).plan()


def test_i7_gaps_that_kafka_makes_by_design_are_no_errors(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(5), 1), 1, transaction="committed")
    world.produce(topic, changes(range(5), 9, "never"), 1, transaction="aborted")
    world.produce(topic, changes(range(5), 2), 1)
    result = world.run_batch(pipeline)
    width = world.steps(pipeline).ledger.state().batches[0].batch.width
    assert (result.counts.read, width) == (10, 17)  # two transaction markers and five aborted records
    assert {row["seq"] for row in world.rows(pipeline)} == {2}


def test_i7_a_range_that_holds_only_gaps_is_a_batch_of_nothing(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(5), 9), 1, transaction="aborted")
    assert world.run_batch(pipeline).counts.read == 0
    assert landed_commits(world, pipeline) == [0]
    assert world.run_batch(pipeline) is None


def test_i8_the_commit_says_where_every_record_went(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, source={"filter": "name <> 'hidden'"})
    world.produce(topic, changes(range(10), 5), 1)
    world.run_batch(pipeline)
    world.produce(
        topic,
        [
            *changes(range(4), 6),  # superseded by the next four
            *changes(range(4), 7),
            *changes(range(4, 7), 1),  # stale: the table has seq 5
            {"id": 90, "seq": 1, "name": "hidden"},
            {"id": 91, "seq": 1, "name": None},  # not true: left out as well
            b"not json",
            None,
        ],
        1,
    )
    world.run_batch(pipeline)
    counts = world.steps(pipeline).ledger.state().batches[1].commit.counts
    assert counts.to_json() == {
        "read": 15,
        "applied": 4,
        "superseded": 4,
        "stale": 3,
        "quarantined": 2,
        "filtered": 2,
    }


def test_i9_order_decides_and_a_delete_leaves_a_tombstone(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, change={"delete_when": "op = 'd'"})
    for record in (
        *changes(range(3), 5),
        *changes(range(1), 8, op="d"),
        *changes(range(1), 7, "late"),  # older than the delete: must not bring the row back
        *changes(range(1, 2), 4, op="d"),  # an older delete: must not remove the row
        *changes(range(7, 8), 3, op="d"),  # of a key that was never seen
        *changes(range(7, 8), 2, "late"),
    ):
        world.produce(topic, [record], 1)
        world.run_batch(pipeline)
    rows = {row["id"]: row for row in world.rows(pipeline)}
    assert {i for i, row in rows.items() if row["_lakemark"]["deleted"]} == {0, 7}
    assert (rows[0]["name"], rows[0]["seq"], rows[0]["_lakemark"]["change_order"]["seq"]) == (None, None, 8)
    assert rows[1]["name"] == "n1"
    world.produce(topic, changes(range(1), 9, "back"), 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline))[0]["name"] == "back0"


def test_i9_kafka_order_decides_without_order_by(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, change={"order_by": []})
    world.produce(topic, changes(range(3), 9) + changes(range(3), 1, "newer"), 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent, order=None)


def test_i10_a_lost_ledger_is_noticed_and_its_data_stands_in_the_target(world: World) -> None:
    topic = world.topic()
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(10), 1))
    world.run_batch(pipeline)
    batch = world.steps(pipeline).ledger.state().batches[0].batch
    shutil.rmtree(world.steps(pipeline).ledger.path)
    with pytest.raises(LedgerBehindTarget):
        world.steps(pipeline).plan()
    log = TableLog.open(world.steps(pipeline).target_path)
    assert [c.metadata.batch for c in log.landed_commits(pipeline.name, 1)] == [batch]


def test_i11_quarantine_before_target_and_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    bad = [b"{", None, b'{"id": null, "seq": 1}', b'{"id": 1, "seq": null}', b'{"id": "x", "seq": 1}', b"\xff\xfe"]
    world.produce(topic, [*changes(range(3), 1), *bad], 1)
    world.steps(pipeline).plan()

    def killed(*arguments: Any) -> bool:
        raise ConnectionError("between quarantine and target")

    with monkeypatch.context() as patched:
        patched.setattr(spark_jobs.attempt, "merge_changes", killed)
        with pytest.raises(OutcomeUnknownError):
            world.attempt(pipeline, 0)
    assert len(world.quarantine(pipeline)) == len(bad)
    assert world.attempt(pipeline, 0).outcome == "applied"
    kept = sorted(world.quarantine(pipeline), key=lambda row: row["offset"])
    assert [row["offset"] for row in kept] == [3, 4, 5, 6, 7, 8]
    assert [row["value"] for row in kept] == bad
    assert [row["reason"].split(" (")[0] for row in kept] == [
        "not decodable with the declared schema",
        "null value",
        "null in a key column",
        "null in an order column",
        "not decodable with the declared schema",
        "not decodable with the declared schema",
    ]
    assert {row["batch_id"] for row in kept} == {0}
    assert world.steps(pipeline).settle(0).quarantine_version == 1


def test_rows_say_where_they_come_from(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(2), 5), 1)
    world.run_batch(pipeline)
    lineage = sorted((row["_lakemark"] for row in world.rows(pipeline)), key=lambda x: x["offset"])
    assert lineage[1] == {
        "generation": 1,
        "batch_id": 0,
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "change_order": {"seq": 5, "_topic": topic, "_partition": 0, "_offset": 1},
        "deleted": False,
    }


def test_a_schema_may_use_the_names_of_kafkas_own_fields(world: World) -> None:
    topic = world.topic(partitions=1)
    schema = (
        "id BIGINT, key STRING, value INT, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, row INT"
    )
    pipeline = world.pipeline(
        topic,
        source={"schema": f"{schema}, reason STRING, filtered BOOLEAN, decoded INT", "filter": "offset < 100"},
        change={"order_by": ["timestamp"], "delete_when": "value = 0 AND reason = 'gone'"},
    )
    common = {"id": 1, "key": "k", "topic": "mine", "partition": 77, "row": 5, "filtered": True, "decoded": 3}
    first = {**common, "value": 7, "offset": 42, "timestamp": "2026-01-01T00:00:00Z", "reason": "new"}
    world.produce(topic, [first, {**first, "id": 2, "offset": 100}], 1)
    world.run_batch(pipeline)
    [row] = world.rows(pipeline)
    assert (row["topic"], row["partition"], row["offset"], row["key"], row["value"]) == ("mine", 77, 42, "k", 7)
    assert (row["_lakemark"]["topic"], row["_lakemark"]["offset"]) == (topic, 0)
    world.produce(topic, [{**first, "value": 0, "reason": "gone", "timestamp": "2026-01-02T00:00:00Z"}], 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == {}
