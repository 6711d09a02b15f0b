"""What decoding costs, by format: microseconds per event on this machine, rounds of all formats taking turns.

    python -m tests.bench.formats [--events N] [--rounds N]

The same rows in every format, 200,000 unless told otherwise; the floor is the same rows read without decoding. Only the
decoding is timed (records are in memory, results are counted by a digest of all columns, which must agree).
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.pipeline_file import Pipeline
from include.sources.protobuf_schema import ProtobufSchema
from spark_jobs.changes.decode import decode
from spark_jobs.engine.session import fit, open_session
from tests.conftest import settings_in, stack_in
from tests.support.schema_registry import RegistryServer, schema_registry

_SCHEMA = "id BIGINT, customer STRING, amount DECIMAL(12, 2), changed_at TIMESTAMP, note STRING"
_AT = 1_767_225_600_000_000  # microseconds
_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "changed_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}
_ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", _ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}


_MESSAGE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Value {
  int64 id = 1;
  string customer = 2;
  string amount = 3;
  google.protobuf.Timestamp changed_at = 4;
  optional string note = 5;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="formats", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5, help="after one that warms up")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        stack = stack_in(Path(scratch) / "services")
        try:
            stack.up(print, ("spark",))
            settings = settings_in(stack.settings.home, **stack.addresses(("spark",)))
            with (
                schema_registry(settings, Path(scratch) / "registry") as registry,
                open_session(settings, settings.spark_remote, None) as spark,
            ):
                report(spark, registry, options.events, options.rounds)
        finally:
            stack.down()


def report(spark: SparkSession, registry: RegistryServer, events: int, rounds: int) -> None:
    fit(spark, records=events, rows=0)
    ids = (
        registry.register("row", _ROW),
        registry.register("envelope", _ENVELOPE),
        registry.register("message", _MESSAGE, kind="PROTOBUF"),
    )
    formats = {
        name: (pipeline(name, registry), records(spark, encode, events)) for name, encode in encoders(ids).items()
    }
    seconds: dict[str, list[float]] = {}
    digests: set[Any] = set()
    for turn in range(rounds + 1):
        for name, (of_format, made) in {"nothing": (None, next(iter(formats.values()))[1]), **formats}.items():
            began = time.monotonic()
            digest = decoded(made, of_format, events)
            if turn:
                seconds.setdefault(name, []).append(time.monotonic() - began)
            if of_format is not None:
                digests.add(digest)
    assert len(digests) == 1, f"formats decode to different rows: {digests}"
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{name:14} {median:6.2f} s  {1e6 * median / events:6.2f} us per event", flush=True)


def decoded(made: DataFrame, of_format: Pipeline | None, events: int) -> Any:
    if of_format is None:
        return made.agg(F.bit_xor(F.xxhash64("value"))).first()[0]
    rows = decode(made, of_format)
    columns = [f"row.{column.name}" for column in of_format.columns]
    found = rows.agg(F.bit_xor(F.xxhash64(*columns)), F.count_if(F.col("reason").isNotNull())).first()
    assert found[1] == 0, f"{found[1]} events of {of_format.source.format} do not decode"
    return found[0]


def records(spark: SparkSession, encode: Callable[[dict[str, Any]], bytes], events: int) -> DataFrame:
    """A thousand different events, again and again."""
    rows = [
        {
            "id": n,
            "customer": f"customer {n}",
            "amount": n * 7,
            "changed_at": _AT + n * 1_000,
            "note": "n" * (n % 40) or None,
        }
        for n in range(1000)
    ]
    values = spark.createDataFrame([(n, bytearray(encode(row))) for n, row in enumerate(rows)], "n INT, value BINARY")
    many = spark.range(events // 1000).crossJoin(values)
    return many.select(
        F.lit(None).cast("binary").alias("key"),
        "value",
        F.lit("t").alias("topic"),
        F.lit(0).alias("partition"),
        (F.col("id") * 1000 + F.col("n")).alias("offset"),
        F.timestamp_micros(F.lit(_AT)).alias("timestamp"),
    ).localCheckpoint(eager=True)


def encoders(ids: tuple[int, int, int]) -> dict[str, Callable[[dict[str, Any]], bytes]]:
    def cents(row: dict[str, Any]) -> str:
        return f"{row['amount'] // 100}.{row['amount'] % 100:02}"

    def iso(row: dict[str, Any]) -> str:
        micros = row["changed_at"]
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + f".{micros % 1_000_000:06}Z"

    def as_json(row: dict[str, Any]) -> bytes:
        return json.dumps({**row, "amount": float(cents(row)), "changed_at": iso(row)}).encode()

    def debezium(row: dict[str, Any]) -> bytes:
        source = {"connector": "postgresql", "lsn": row["id"], "ts_ms": 1, "schema": "public", "table": "orders"}
        image = {**row, "amount": cents(row)}
        return json.dumps({"before": None, "after": image, "op": "u", "source": source, "ts_ms": 1}).encode()

    def csv(row: dict[str, Any]) -> bytes:
        return f"{row['id']},{row['customer']},{cents(row)},{iso(row)},{row['note'] or ''}".encode()

    def avro(schema_id: int, schema: Any, value: Any) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, value)
        return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()

    plain, envelope = fastavro.parse_schema(_ROW), fastavro.parse_schema(_ENVELOPE)

    def protobuf(schema_id: int, row: dict[str, Any]) -> bytes:
        compiled = ProtobufSchema.of(_MESSAGE, {}).descriptors if not message_class else None
        if compiled is not None:
            pool = descriptor_pool.DescriptorPool()
            for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
                pool.Add(file)
            message_class.append(message_factory.GetMessageClass(pool.FindMessageTypeByName("Value")))
        message = message_class[0](id=row["id"], customer=row["customer"], amount=cents(row), note=row["note"])
        message.changed_at.FromMicroseconds(row["changed_at"])
        return b"\0" + schema_id.to_bytes(4, "big") + b"\0" + message.SerializeToString()

    message_class: list[Any] = []

    def typed(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "amount": row["amount"].to_bytes(8, "big", signed=True)}

    return {
        "json": as_json,
        "debezium-json": debezium,
        "csv": csv,
        "avro": lambda row: avro(ids[0], plain, typed(row)),
        "protobuf": lambda row: protobuf(ids[2], row),
        "debezium-avro": lambda row: avro(ids[1], envelope, {"before": None, "after": typed(row), "op": "u"}),
    }


def pipeline(name: str, registry: RegistryServer) -> Pipeline:
    source = {"bootstrap_servers": "k", "topics": ["t"], "schema": _SCHEMA, "format": name}
    source |= {"registry": {"url": registry.url}, "debezium": {"decimals": "string"}}
    target = {"table": "lake://silver/p"}
    return Pipeline.model_validate({"name": "p", "source": source, "change": {"keys": ["id"]}, "target": target})


if __name__ == "__main__":
    main()
