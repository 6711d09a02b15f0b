"""Schemas of Avro from a seed: what is declared, and what writers have instead."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.hostile.types import Schema, Type, decimal

Avro = Any  # a schema, as JSON has it

# What is declared; every schema below has fields of these names, of whatever types.
AVRO_COLUMNS: Schema = {
    "id": Type("BIGINT"),
    "seq": Type("BIGINT"),
    "name": Type("STRING"),
    "number": Type("INT"),
    "tiny": Type("TINYINT"),
    "big": Type("BIGINT"),
    "money": decimal(12, 2),
    "wide": decimal(38, 10),
    "ratio": Type("FLOAT"),
    "size": Type("DOUBLE"),
    "flag": Type("BOOLEAN"),
    "day": Type("DATE"),
    "at": Type("TIMESTAMP"),
    "raw": Type("BINARY"),
    "tags": Type("ARRAY", (Type("STRING"),)),
    "sums": Type("ARRAY", (decimal(12, 2),)),
    "counts": Type("MAP", (Type("BIGINT"),)),
    "inner": Type(
        "STRUCT",
        fields=(
            ("at", Type("TIMESTAMP")),
            ("wide", decimal(38, 10)),
            ("list", Type("ARRAY", (Type("MAP", (Type("INT"),)),))),
        ),
    ),
}


def logical(type_: str, of: str, **more: Any) -> Avro:
    return {"type": type_, "logicalType": of, **more}


def of_connect(type_: str, name: str) -> Avro:
    return {"type": type_, "connect.name": name, "connect.version": 1}


def record(name: str, fields: Mapping[str, Avro]) -> Avro:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": type_} for n, type_ in fields.items()]}


DATES = [logical("int", "date")]
MOMENTS = [
    logical("long", f"{local}timestamp-{unit}") for local in ("", "local-") for unit in ("millis", "micros", "nanos")
]
TIMES = [logical("int", "time-millis"), logical("long", "time-micros")]
DECIMALS = [
    logical("bytes", "decimal", precision=12, scale=2),
    logical("bytes", "decimal", precision=18, scale=18),
    logical("bytes", "decimal", precision=38, scale=10),
    logical("bytes", "decimal", precision=3, scale=0),
    logical("fixed", "decimal", precision=9, scale=2, name="D4", size=4),
    logical("fixed", "decimal", precision=12, scale=4, name="D12", size=12),
    logical("fixed", "decimal", precision=38, scale=0, name="D16", size=16),
]
OTHERS: list[Avro] = [
    {"type": "enum", "name": "Colour", "symbols": ["RED", "true", "GREEN"]},
    {"type": "fixed", "name": "Four", "size": 4},
    {"type": "fixed", "name": "None0", "size": 0},
    logical("string", "uuid"),
    logical("fixed", "duration", name="Span", size=12),
]
SIMPLE = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
DEBEZIUM = [
    *(of_connect("int", f"io.debezium.time.{name}") for name in ("Date", "Time", "Year")),
    *(
        of_connect("long", f"io.debezium.time.{name}")
        for name in ("Timestamp", "MicroTimestamp", "NanoTimestamp", "MicroTime", "NanoTime", "MicroDuration")
    ),
    *(of_connect("string", f"io.debezium.time.{name}") for name in ("ZonedTimestamp", "ZonedTime", "Interval")),
    *(of_connect("string", f"io.debezium.data.{name}") for name in ("Enum", "Json", "Uuid", "Xml")),
    of_connect("bytes", "io.debezium.data.Bits"),
    {**logical("int", "date"), "connect.name": "org.apache.kafka.connect.data.Date"},
    {**logical("int", "time-millis"), "connect.name": "org.apache.kafka.connect.data.Time"},
    {**logical("long", "timestamp-millis"), "connect.name": "org.apache.kafka.connect.data.Timestamp"},
    of_connect("int", "org.apache.kafka.connect.data.Date"),
    of_connect("int", "org.apache.kafka.connect.data.Time"),
    of_connect("long", "org.apache.kafka.connect.data.Timestamp"),
    {
        **logical("bytes", "decimal", precision=12, scale=2),
        "connect.name": "org.apache.kafka.connect.data.Decimal",
    },
    {
        **record("VariableScaleDecimal", {"scale": "int", "value": "bytes"}),
        "connect.name": "io.debezium.data.VariableScaleDecimal",
    },
]
CONNECT_MOMENTS = [of_connect("long", f"io.debezium.time.{name}Timestamp") for name in ("", "Micro", "Nano")]


def natural(random: Random, type_: Type) -> Avro:
    """A usual schema for a declared type."""
    match type_.word:
        case "TINYINT" | "INT":
            return random.choice(("int", "int", "long", "double"))
        case "BIGINT":
            return random.choice(("long", "long", "int"))
        case "FLOAT":
            return random.choice(("float", "double"))
        case "DOUBLE":
            return random.choice(("double", "float"))
        case "DECIMAL":
            return random.choice((*DECIMALS, "long", "double"))
        case "BOOLEAN":
            return "boolean"
        case "DATE":
            return random.choice((*DATES, of_connect("int", "io.debezium.time.Date")))
        case "TIMESTAMP":
            return random.choice((*MOMENTS, *CONNECT_MOMENTS))
        case "BINARY":
            return random.choice(("bytes", {"type": "fixed", "name": "Four", "size": 4}))
        case "STRING":
            return random.choice(("string", "string", *OTHERS[:1]))
        case "ARRAY":
            return {"type": "array", "items": nullable(random, natural(random, type_.parts[0]))}
        case "MAP":
            return {"type": "map", "values": nullable(random, natural(random, type_.parts[0]))}
        case _:
            fields = {name: nullable(random, natural(random, inner)) for name, inner in type_.fields}
            return record("Inner", {**fields, "beyond": "string"})


def nullable(random: Random, schema: Avro) -> Avro:
    """Perhaps a union: with null, or with more."""
    turn = random.random()
    if turn < 0.4 or schema == "null":
        return schema
    if turn < 0.8:
        return random.choice((["null", schema], [schema, "null"]))
    more = [other for other in ("string", "long", "boolean", "bytes") if other != plain(schema)]
    return [*random.sample([schema, "null"], 2), random.choice(more)]


def plain(schema: Avro) -> str:
    """A schema's type, without what it stands for."""
    return schema["type"] if isinstance(schema, dict) else schema


def any_schema(random: Random, level: int = 0) -> Avro:
    """A schema of any type."""
    some = [*SIMPLE, *DATES, *MOMENTS, *TIMES, *DECIMALS, *OTHERS, *DEBEZIUM]
    turn = random.random()
    if turn < 0.8 or level > 1:
        return random.choice(some)
    inner = any_schema(random, level + 1)
    if turn < 0.87:
        # Items that take no bytes are a schema of their own (`endless`).
        items = "int" if inner == "null" or plain(inner) == "fixed" else inner
        return {"type": "array", "items": items}
    if turn < 0.94:
        return {"type": "map", "values": inner}
    return record(f"Any{level}", {"at": inner, "other": "string"})


def without_null(schema: Avro) -> Avro:
    return "string" if schema == "null" else schema


def row_schema(random: Random, columns: Schema, name: str = "Hostile", strange: int = 3) -> Avro:
    """A schema of a row: most of it fits what is declared."""
    odd = random.sample([column for column in columns if column not in ("id", "seq")], strange)
    fields = {
        column: "long"
        if column in ("id", "seq")
        else (["null", without_null(any_schema(random))] if column in odd else nullable(random, natural(random, type_)))
        for column, type_ in columns.items()
    }
    order = random.sample(list(fields), len(fields))
    for column in random.sample(odd, random.randrange(2)):
        order.remove(column)
    return named_once(record(name, {column: fields[column] for column in [*order, "beyond"] if column in fields}))


def named_once(schema: Avro) -> Avro:
    """Gives every named type a name of its own: Avro allows each name once."""
    seen: dict[str, int] = {}

    def renamed(node: Avro) -> Avro:
        if isinstance(node, list):
            return [renamed(option) for option in node]
        if not isinstance(node, dict):
            return node
        found = dict(node)
        if "name" in found:
            seen[found["name"]] = seen.get(found["name"], 0) + 1
            found["name"] += str(seen[found["name"]])
        if found["type"] == "record":
            found["fields"] = [{**field, "type": renamed(field["type"])} for field in found["fields"]]
        for part in ("items", "values"):
            if part in found:
                found[part] = renamed(found[part])
        return found

    return renamed(schema)
