"""Hostile records through whole pipelines: no attempt fails, every record is in the table or in the quarantine, and the
newest change of a key wins. (Sessions of their own: what decodes alone is in `test_hostile_records`.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from include.pipeline_file import Pipeline
from tests.hostile import csv_oracle, json_oracle, oracle
from tests.hostile.generator import CsvRecords, JsonRecords, Record
from tests.hostile.oracle import NoRow, Row, Unclear
from tests.hostile.types import FLAT, SCHEMA, ddl
from tests.support.hostile import assert_same, different
from tests.support.world import World

Place = tuple[int, int]  # partition, offset


def sent(world: World, topic: str, records: list[Record], stamp: Callable[[int], int]) -> dict[Place, Record]:
    """Sends records; returns where each of them is. Args: stamp: Kafka's timestamp of the nth record."""
    producer = Producer({"bootstrap.servers": world.bootstrap_servers, "log_level": 0})
    found: dict[Place, Record] = {}
    for n, record in enumerate(records):

        def delivered(error: object, message: Any, record: Record = record) -> None:
            assert error is None, error
            found[message.partition(), message.offset()] = record

        producer.produce(topic, record.value, record.key, n % 2, delivered, timestamp=stamp(n))
        if n % 1_000 == 0:
            producer.flush()
    producer.flush()
    assert len(found) == len(records)
    return found


def assert_all_accounted_for(
    world: World, pipeline: Pipeline, records: dict[Place, Record], expected: Callable[[Record], Row | None]
) -> None:
    """Every record is a row, older than a row, or in the quarantine; the rows are the oracle's newest ones."""
    newest: dict[int, tuple[tuple[int, Place], Row]] = {}
    quarantine = {(row["partition"], row["offset"]) for row in world.quarantine(pipeline)}
    set_aside: set[Place] = set()
    for place, record in records.items():
        try:
            row = expected(record)
        except NoRow:
            set_aside.add(place)
            continue
        order = (row["seq"], place)
        if row["id"] not in newest or order > newest[row["id"]][0]:
            newest[row["id"]] = (order, row)
    assert quarantine == set_aside
    rows = world.rows(pipeline)
    assert len(rows) == len(newest)
    assert newest and set_aside
    for found in rows:
        (_, place), row = newest[found["id"]]
        assert (found["_lakemark"]["partition"], found["_lakemark"]["offset"]) == place
        assert_same([wrong] if (wrong := different(records[place], lambda _, row=row: row, found, None)) else [])
    events = world.coordinator(pipeline).ledger.state().batches
    assert sum(batch.commit.counts.read for batch in events) == len(records)


def _is_small(record: Record) -> bool:
    return len(record.value or b"") < 900_000  # what a broker takes by default


def _is_clear(record: Record, expected: Callable[[Record], Row | None]) -> bool:
    try:
        expected(record)
    except NoRow:
        return True
    except Unclear:
        return False
    return True


@pytest.mark.parametrize(
    "stamp",
    [
        pytest.param(1_767_323_045_000, id="millis", marks=pytest.mark.slow),
        pytest.param(1_767_323_045_000_000, id="micros", marks=pytest.mark.slow),
        pytest.param(
            1_767_323_045_000_000_000,
            id="nanos",
        ),
    ],
)
def test_json_end_to_end(world: World, stamp: int) -> None:
    beyond = str(2**63 - 1)
    topic = world.topic(2, message_timestamp_after_max_ms=beyond, message_timestamp_before_max_ms=beyond)
    pipeline = world.pipeline(
        topic, source={"schema": ddl(SCHEMA), "key": "json", "limits": {"records_per_batch_max": 700}}
    )
    made = JsonRecords("fixed end", SCHEMA, ids=200, key="json").records(800)

    def expected(record: Record) -> Row | None:
        row = json_oracle.json_row(record.value, SCHEMA, None)
        key = json_oracle.of_key(record.key, "json", SCHEMA["id"], "id", None)
        return oracle.completed(row, key, ("id",), ("seq",))

    clear = [record for record in made if _is_small(record) and _is_clear(record, expected)]
    records = sent(world, topic, clear, lambda n: stamp + n)
    assert world.drain(pipeline) > 1
    assert_all_accounted_for(world, pipeline, records, expected)


def test_csv_end_to_end(world: World) -> None:
    topic = world.topic(2)
    pipeline = world.pipeline(
        topic, source={"schema": ddl(FLAT), "format": "csv", "csv": {"delimiter": ";"}, "timestamps": "micros"}
    )

    def expected(record: Record) -> Row | None:
        return oracle.completed(csv_oracle.csv_row(record.value, FLAT, "micros"), None, ("id",), ("seq",))

    made = CsvRecords("fixed end", FLAT, ids=200).records(1_500)
    records = [record for record in made if _is_small(record) and _is_clear(record, expected)]
    assert len(records) > 1_000
    placed = sent(world, topic, records, lambda n: 1_767_323_045_000 + n)
    assert world.drain(pipeline) > 1
    assert_all_accounted_for(world, pipeline, placed, expected)
