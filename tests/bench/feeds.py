"""What is sent in a work, what the table holds before, and how Spark and Arrow read it: the same for all contenders."""

from __future__ import annotations

import io
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import yaml
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from include.demo.replay import flight_events, flights_csv, records
from include.pipeline_file.schema_ddl import parse_ddl
from include.settings import PROJECT_ROOT
from tests.bench.orders import SCHEMA, Orders, first_rows
from tests.support.schema_registry import RegistryServer

_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "DECIMAL": pa.decimal128(12, 2),
}
_FRAME = 5  # bytes before a record of Avro: Confluent's magic byte, and the schema's id
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "order_date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "customer", "type": "string"},
        {"name": "status", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "updated_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
_FLIGHTS = yaml.safe_load((PROJECT_ROOT / "include" / "pipelines" / "flights.yaml").read_text())


@dataclass
class Feed(ABC):
    """Changes, and the table that they go to."""

    schema: ClassVar[str]  # of the value, as Spark's DDL
    keys: ClassVar[tuple[str, ...]]
    order: ClassVar[str]  # the column that says which change is the newest
    cluster_by: ClassVar[str]

    @property
    def columns(self) -> list[str]:
        return [column.name for column in parse_ddl(self.schema)]

    def same_key(self, one: str, other: str) -> str:
        """A condition on two tables, by their aliases."""
        return " AND ".join(f"{one}.{key} = {other}.{key}" for key in self.keys)

    def is_newer(self, one: str, other: str) -> str:
        return f"{one}.{self.order} > {other}.{self.order}"

    @abstractmethod
    def events(self, count: int) -> Iterator[tuple[int, bytes]]:
        """The next changes, each with a number that is the same for all of its key."""

    @abstractmethod
    def first_rows(self, spark: SparkSession) -> DataFrame:
        """The table before the first change."""

    @property
    @abstractmethod
    def source(self) -> Mapping[str, Any]:
        """The part of a pipeline file that says how to read it."""

    @abstractmethod
    def decoded(self, records: DataFrame, *more: Column) -> DataFrame:
        """Kafka's records as rows, as one writes that in Spark. Args: more: columns to have beside them."""

    @abstractmethod
    def arrow(self, values: list[bytes]) -> pa.Table:
        """The same without Spark."""


@dataclass
class _Json(Feed):
    @property
    def source(self) -> Mapping[str, Any]:
        return {"schema": self.schema}

    def decoded(self, records: DataFrame, *more: Column) -> DataFrame:
        value = F.from_json(F.col("value").cast("string"), self.schema)
        return _spread(records, value, more)

    def arrow(self, values: list[bytes]) -> pa.Table:
        """Arrow's reader knows neither dates nor zones nor decimals in JSON: these are read as text, or as numbers."""
        wanted = {column.name: _ARROW[column.word] for column in parse_ddl(self.schema)}
        read_as = {name: _json_type(wanted_type) for name, wanted_type in wanted.items()}
        options = pj.ParseOptions(explicit_schema=pa.schema(read_as), unexpected_field_behavior="ignore")
        read = pj.read_json(pa.BufferReader(b"\n".join(values)), parse_options=options)
        return pa.table({name: _converted(read[name], wanted_type) for name, wanted_type in wanted.items()})


@dataclass
class JsonOrders(_Json):
    """The generated stream of orders."""

    schema, keys, order, cluster_by = SCHEMA, ("order_id",), "updated_at", "order_id"
    orders: Orders

    def events(self, count: int) -> Iterator[tuple[int, bytes]]:
        return self.orders.events(count)

    def first_rows(self, spark: SparkSession) -> DataFrame:
        return first_rows(spark, self.orders.rows)


@dataclass
class AvroOrders(JsonOrders):
    """The same orders in Avro, as Confluent's serializer writes it: the schema is in a registry."""

    registry: RegistryServer
    _schema_id: int = field(init=False)

    def __post_init__(self) -> None:
        self._schema_id = self.registry.register("orders-value", _AVRO)

    @property
    def source(self) -> Mapping[str, Any]:
        return {"schema": self.schema, "format": "avro", "registry": {"url": self.registry.url}}

    def events(self, count: int) -> Iterator[tuple[int, bytes]]:
        frame, parsed = b"\x00" + self._schema_id.to_bytes(4, "big"), fastavro.parse_schema(_AVRO)
        for change in self.orders.changes(count):
            written = io.BytesIO()
            fastavro.schemaless_writer(written, parsed, change._asdict())
            yield change.order_id, frame + written.getvalue()

    def decoded(self, records: DataFrame, *more: Column) -> DataFrame:
        value = from_avro(F.expr(f"substring(value, {_FRAME + 1})"), json.dumps(_AVRO))
        return _spread(records, value, more)

    def arrow(self, values: list[bytes]) -> pa.Table:
        parsed = fastavro.parse_schema(_AVRO)
        rows = [fastavro.schemaless_reader(io.BytesIO(value[_FRAME:]), parsed) for value in values]
        return pa.Table.from_pylist(rows, pa.schema({c.name: _ARROW[c.word] for c in parse_ddl(self.schema)}))


@dataclass
class Flights(_Json):
    """A year of real flights, as a feed sends it: some events are late, a few come after their successors. The table
    begins empty."""

    schema = " ".join(_FLIGHTS["source"]["schema"].split())
    keys, order = tuple(_FLIGHTS["change"]["keys"]), _FLIGHTS["change"]["order_by"][0]
    [cluster_by] = _FLIGHTS["target"]["cluster_by"]
    _events: Iterator[tuple[str, str]] = field(default_factory=lambda: records(flight_events(flights_csv())))

    def events(self, count: int) -> Iterator[tuple[int, bytes]]:
        for key, value in islice(self._events, count):
            yield zlib.crc32(key.encode()), value.encode()

    def first_rows(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([], self.schema)


def _spread(records: DataFrame, value: Column, more: Iterable[Column]) -> DataFrame:
    kept = records.select(value.alias("v"), *more)
    return kept.select("v.*", *kept.columns[1:])


def _json_type(wanted: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(wanted):
        return pa.float64()
    return pa.string() if pa.types.is_temporal(wanted) else wanted


def _converted(read: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(wanted):
        return pc.assume_timezone(pc.cast(pc.utf8_rtrim(read, "Z"), pa.timestamp("us")), "UTC")
    if pa.types.is_decimal(wanted):
        return pc.round(read, wanted.scale).cast(wanted, safe=False)
    return read.cast(wanted)
