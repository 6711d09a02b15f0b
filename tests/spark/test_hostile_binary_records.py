"""Records of Avro and Protobuf that no producer should send, by hostile schemas: see `test_hostile_records.py`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from tests.conftest import world_in
from tests.hostile import avro, avro_oracle, oracle
from tests.hostile.avro import AVRO_COLUMNS, AvroRecords, DebeziumAvroRecords, framed, row_schema, varint
from tests.hostile.generator import Record
from tests.hostile.oracle import Row
from tests.hostile.protobuf import MESSAGES, PROTOBUF_COLUMNS, ProtobufRecords
from tests.hostile.protobuf_oracle import protobuf_row
from tests.hostile.types import Schema, Type, decimal
from tests.support.hostile import FRESH, SEEDS, a_pipeline, assert_same, decoded, differences
from tests.support.schema_registry import RegistryServer, schema_registry

_UNKNOWN_IDS = (0, 10**6, 2**31 - 1, 2**31, 2**32 - 1)


@pytest.fixture(scope="module")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with world_in(tmp_path_factory.mktemp("hostile"), stack).session() as session:
        yield session


@pytest.fixture(scope="module")
def registry(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with schema_registry(stack.settings, tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="module")
def strangers(registry: RegistryServer) -> list[int]:
    """Ids that name no record of Avro, and no message."""
    return [*_UNKNOWN_IDS, registry.register("text", "string"), registry.register("none", 'syntax = "proto3";', kind="PROTOBUF")]


# Avro


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("unit", [None, "millis"])
def test_avro(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str, unit: str | None
) -> None:
    random = Random(f"{seed} {unit}")
    written = [row_schema(random, AVRO_COLUMNS) for _ in range(4)]
    schemas = {registry.register(f"{seed}-{unit}-{n}", schema): schema for n, schema in enumerate(written)}
    records = AvroRecords(f"{seed} {unit}", schemas).records(1_500, strangers)
    pipeline = a_pipeline(
        AVRO_COLUMNS, format="avro", registry={"url": registry.url}, **({"timestamps": unit} if unit else {})
    )

    def expected(record: Record) -> Row:
        row = avro_oracle.avro_row(record.value, schemas, AVRO_COLUMNS, unit)
        return oracle.completed(row, None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


@pytest.mark.parametrize("seed", SEEDS)
def test_debezium_avro(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str
) -> None:
    random, schemas = Random(seed), {}
    for n in range(3):
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
        row = avro_oracle.debezium_row(record.value, schemas, AVRO_COLUMNS, "micros")
        return row and oracle.completed(row, avro_oracle.key_of(record.key, key, avro.KEY, "id"), ("id",), ())

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))


# Protobuf


@pytest.mark.parametrize("seed", SEEDS)
def test_protobuf(
    spark: SparkSession, tmp_path: Path, registry: RegistryServer, strangers: list[int], seed: str
) -> None:
    number = registry.register("messages", MESSAGES, kind="PROTOBUF")
    records = ProtobufRecords(seed, number).records(2_000, strangers)
    pipeline = a_pipeline(PROTOBUF_COLUMNS, format="protobuf", registry={"url": registry.url})

    def expected(record: Record) -> Row:
        row = protobuf_row(record.value, {number: MESSAGES}, PROTOBUF_COLUMNS)
        return oracle.completed(row, None, ("id",), ("seq",))

    assert_same(differences(records, decoded(spark, pipeline, records, tmp_path), expected))
