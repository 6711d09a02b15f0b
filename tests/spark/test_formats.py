"""What records become: Debezium's as its connectors write them, keys and tombstones, Kafka's own fields as columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from spark_jobs.decode import decode
from tests.conftest import world_in
from tests.support.records import RECORDS
from tests.support.world import World

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_CASES = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("debezium").glob("*.json")}


@pytest.fixture(scope="module")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world: World = world_in(tmp_path_factory.mktemp("formats"), stack)
    with world.session() as session:
        yield session


def a_pipeline(schema: str, change: dict[str, Any], **source: Any) -> Pipeline:
    given = {"bootstrap_servers": "k", "topics": ["t"], "schema": schema, **source}
    return Pipeline.model_validate(
        {"name": "p", "source": given, "change": {"keys": ["id"], **change}, "target": {"table": "lake://silver/p"}}
    )


def decoded(spark: SparkSession, pipeline: Pipeline, records: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Keys and values (bytes, None, or what becomes JSON) as `decode` has them, in order."""

    def raw(part: Any) -> bytes | None:
        return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()

    rows = [(raw(key), raw(value), "t", 0, n, _NOW) for n, (key, value) in enumerate(records)]
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 0, len(rows)),), {"t": "id"}, "cluster")
    found = decode(spark.createDataFrame(rows, RECORDS), pipeline, batch).orderBy("offset").collect()
    return [row.asDict(recursive=True) for row in found]


def shown(value: Any) -> Any:
    """A value, as the files have it."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.astimezone(UTC)).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case _:
            return value


@pytest.mark.parametrize("connector", _CASES)
def test_debeziums_records_as_its_connectors_write_them(spark: SparkSession, connector: str) -> None:
    given = _CASES[connector]
    pipeline = a_pipeline(
        given["schema"],
        {"order_by": given["order_by"]},
        format="debezium-json",
        debezium=given["debezium"],
        key="json",
    )
    found = decoded(spark, pipeline, [(case["key"], case["value"]) for case in given["records"]])
    for case, row in zip(given["records"], found, strict=True):
        lineage = row["row"].pop("_lakemark")
        values = {name: shown(value) for name, value in row["row"].items()}
        told = (row["reason"], row["filtered"], lineage["deleted"])
        about = case["about"], row
        if "problem" in case:
            assert row["reason"] == case["problem"], about
            continue
        assert told == (None, case.get("filtered", False), "deleted" in case), about
        assert (row["absent"] or []) == case.get("absent", []), about
        if "row" in case:
            assert values == case["row"], about
        if "deleted" in case:
            assert values["id"] == case["deleted"], about
        if "order" in case:
            assert {name: lineage["change_order"][name] for name in case["order"]} == case["order"], about


def test_an_unavailable_value_is_set_aside_where_the_file_says_so(spark: SparkSession) -> None:
    given = _CASES["postgresql"]
    toast = [case for case in given["records"] if "TOAST" in case["about"]]
    change = {"order_by": given["order_by"], "absent": "nulls"}
    pipeline = a_pipeline(given["schema"], change, format="debezium-json", debezium=given["debezium"], key="json")
    [row] = decoded(spark, pipeline, [(case["key"], case["value"]) for case in toast])
    assert row["reason"] == "column note is not in the change (unavailable value)"


@pytest.mark.parametrize(
    ("unscaled", "scale", "expected"),
    [
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (127, 0, "127"),
        (128, 0, "128"),
        (-128, 0, "-128"),
        (-129, 0, "-129"),
        (2**56, 0, str(2**56)),
        (-(2**56), 0, str(-(2**56))),
        (2**63 - 1, 4, "922337203685477.5807"),
        (10**38 - 1, 0, "9" * 38),
        (-(10**38) + 1, 10, "-" + "9" * 28 + "." + "9" * 10),
    ],
)
def test_a_decimal_is_the_integer_of_its_bytes(spark: SparkSession, unscaled: int, scale: int, expected: str) -> None:
    from base64 import b64encode

    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1  # as Java's BigInteger has it
    text = b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()
    pipeline = a_pipeline(f"id BIGINT, amount DECIMAL(38, {scale})", {}, format="debezium-json")
    [row] = decoded(spark, pipeline, [(None, {"op": "c", "after": {"id": 1, "amount": text}})])
    assert (row["reason"], str(row["row"]["amount"])) == (None, expected)


@pytest.mark.parametrize("tombstones", ["quarantine", "ignore", "delete"])
@pytest.mark.parametrize("key", ["json", "string"])
def test_a_tombstone_is_what_the_file_says(spark: SparkSession, tombstones: str, key: Any) -> None:
    change = {"tombstones": tombstones, "order_by": ["kafka.timestamp"]}
    pipeline = a_pipeline("id BIGINT, name STRING", change, key=key)
    raw = {"id": 7} if key == "json" else b"7"
    row, bad = decoded(spark, pipeline, [(raw, None), (b"?", None)])
    lineage = row["row"].pop("_lakemark")
    told = (row["reason"], row["filtered"], lineage["deleted"])
    assert told == {
        "quarantine": ("null value", False, False),
        "ignore": (None, True, False),
        "delete": (None, False, True),
    }.get(tombstones)
    assert row["row"] == {"id": 7, "name": None}
    assert lineage["change_order"]["kafka.timestamp"].astimezone(UTC) == _NOW
    if tombstones == "delete":
        assert bad["reason"] == "null in a key column (id)"


def test_columns_from_the_key_and_from_kafka_and_order_by_a_field_of_a_struct(spark: SparkSession) -> None:
    pipeline = a_pipeline(
        "id BIGINT, name STRING, meta STRUCT<lsn: BIGINT>",
        {"order_by": ["meta.lsn", "sent_at"]},
        key="json",
        metadata={"sent_at": "timestamp", "place": "offset", "shard": "partition", "source_topic": "topic", "k": "key"},
    )
    [row] = decoded(spark, pipeline, [({"id": 5}, {"name": "n", "meta": {"lsn": 9}})])
    lineage = row["row"].pop("_lakemark")
    sent_at = row["row"].pop("sent_at")
    assert sent_at.astimezone(UTC) == _NOW
    assert row["row"] == {
        "id": 5,
        "name": "n",
        "meta": {"lsn": 9},
        "place": 0,
        "shard": 0,
        "source_topic": "t",
        "k": '{"id": 5}',
    }
    assert lineage["change_order"]["meta.lsn"] == 9
