"""Records of Avro and Protobuf that no producer should send, by hostile schemas: see `test_hostile_records.py`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.hostile import avro, avro_oracle, avro_schemas, oracle
from tests.hostile.avro import AvroRecords, DebeziumAvroRecords, framed, varint
from tests.hostile.avro_schemas import AVRO_COLUMNS, row_schema
from tests.hostile.generator import Record
from tests.hostile.oracle import Doubtful, Row
from tests.hostile.protobuf import ProtobufRecords
from tests.hostile.protobuf_messages import MESSAGES, PROTOBUF_COLUMNS
from tests.hostile.protobuf_oracle import protobuf_row
from tests.support.hostile import FRESH, SEEDS, a_pipeline, assert_same, decoded, differences
from tests.support.schema_registry import RegistryServer

_UNKNOWN_IDS = (0, 10**6, 2**31 - 1, 2**31, 2**32 - 1)


@pytest.fixture(scope="module")
def strangers(registry: RegistryServer) -> list[int]:
    """Ids that name no record of Avro, and no message."""
    return [
        *_UNKNOWN_IDS,
        registry.register("text", "string"),
        registry.register("none", 'syntax = "proto3";', kind="PROTOBUF"),
    ]


# Avro


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", [None, pytest.param("millis", marks=pytest.mark.slow)])
def test_avro(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str, unit: str | None
) -> None:
    random = Random(f"{seed} {unit}")
    written = [row_schema(random, AVRO_COLUMNS) for _ in range(3)]
    schemas = {registry.register(f"{seed}-{unit}-{n}", schema): schema for n, schema in enumerate(written)}
    records = AvroRecords(f"{seed} {unit}", schemas).records(1_200, strangers)
    pipeline = a_pipeline(
        AVRO_COLUMNS, format="avro", registry={"url": registry.url}, **({"timestamps": unit} if unit else {})
    )

    def expected(record: Record) -> Row:
        row = avro_oracle.avro_row(record.value, schemas, AVRO_COLUMNS, unit)
        return oracle.completed(row, None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


_ODD: dict[str, tuple[Any, bytes, Any]] = {
    # by column and case: the schema, the bytes, and the row's value (None: the record is set aside)
    "tags a text of two gigabytes": ({"type": "array", "items": "string"}, varint(1) + varint(2**31 - 9), None),
    "tags two thousand million texts": ({"type": "array", "items": "string"}, varint(2**31 - 9), None),
    "raw bytes of two gigabytes": ("bytes", varint(2**31 - 9), None),
    "counts as many names": ({"type": "map", "values": "long"}, varint(2**31 - 9) + b"\0\0", None),
    "tags nothing, many times": ({"type": "array", "items": "null"}, varint(2**31 - 9) + b"\0", None),
    "money 2^64 + 5": (
        avro_schemas.logical("bytes", "decimal", precision=12, scale=2),
        varint(9) + (2**64 + 5).to_bytes(9, "big"),
        None,
    ),
    "money 60 digits": (avro_schemas.logical("bytes", "decimal", precision=60, scale=2), b"\2\5", None),
    "size the last long": ("long", varint(2**63 - 1), None),
    "size a long that a double has": ("long", varint(2**62), 2.0**62),
    "at a time of the day": (avro_schemas.logical("int", "time-millis"), varint(5), None),
    "at a day": (avro_schemas.of_connect("int", "io.debezium.time.Date"), varint(5), None),
    "day a time of the day": (avro_schemas.logical("int", "time-millis"), varint(5), None),
    "day a moment": (avro_schemas.of_connect("long", "io.debezium.time.MicroTimestamp"), varint(5), None),
    "day a day": (avro_schemas.of_connect("int", "io.debezium.time.Date"), varint(5), date(1970, 1, 6)),
    "tags no text, in one of several": (
        ["null", {"type": "array", "items": "bytes"}, "long"],
        varint(1) + varint(1) + varint(1) + b"\xff\0",
        None,
    ),
}


def test_avro_that_once_ended_spark_or_was_another_row(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer
) -> None:
    records = []
    for name, (schema, value, _) in _ODD.items():
        number = registry.register(
            name.replace(" ", "-"), avro_schemas.record("Odd", {"id": "long", name.split()[0]: schema})
        )
        records.append(Record(None, framed(number, varint(7) + value)))
    columns = {name: AVRO_COLUMNS[name] for name in ("id", *dict.fromkeys(name.split()[0] for name in _ODD))}
    pipeline = a_pipeline(columns, {"order_by": []}, format="avro", registry={"url": registry.url}, timestamps="millis")
    rows = decoded(spark, pipeline, records, tmp_path)
    found = {name: None if row["reason"] else row["row"][name.split()[0]] for name, row in zip(_ODD, rows, strict=True)}
    assert found == {name: value for name, (_, _, value) in _ODD.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_debezium_avro(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str
) -> None:
    random, schemas = Random(seed), {}
    for n in range(2):
        row = row_schema(random, AVRO_COLUMNS)
        number = registry.register(f"debezium-{seed}-{n}", avro.envelope(row, is_inlined=False))
        schemas[number] = avro.envelope(row, is_inlined=True)
    key = registry.register("key", avro.KEY)
    records = DebeziumAvroRecords(seed, schemas, key).records(1_200, strangers)
    pipeline = a_pipeline(
        AVRO_COLUMNS,
        {"order_by": []},
        format="debezium-avro",
        key="avro",
        registry={"url": registry.url},
        debezium={"timestamps": "micros"},
    )

    def expected(record: Record) -> Row | None:
        held = avro_oracle.key_of(record.key, key, avro.KEY, "id")
        try:
            row = avro_oracle.debezium_row(record.value, schemas, AVRO_COLUMNS, "micros")
        except Doubtful as doubt:
            raise Doubtful(oracle.completed(doubt.row, held, ("id",), ())) from doubt
        return row and oracle.completed(row, held, ("id",), ())

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


# Protobuf


@pytest.mark.parametrize("seed", SEEDS)
def test_protobuf(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str
) -> None:
    number = registry.register("messages", MESSAGES, kind="PROTOBUF")
    records = ProtobufRecords(seed, number).records(1_200, strangers)
    pipeline = a_pipeline(PROTOBUF_COLUMNS, format="protobuf", registry={"url": registry.url})

    def expected(record: Record) -> Row:
        row = protobuf_row(record.value, {number: MESSAGES}, PROTOBUF_COLUMNS)
        return oracle.completed(row, None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(6))
def test_many_more(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], turn: int
) -> None:
    """More than 20,000 records, by other schemas in every turn."""
    seed = f"{FRESH} {turn}"
    test_avro(spark, tmp_path, registry, strangers, seed, (None, "millis")[turn % 2])
    test_debezium_avro(spark, tmp_path, registry, strangers, seed)
    test_protobuf(spark, tmp_path, registry, strangers, seed)
