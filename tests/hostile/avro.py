"""Avro that no producer should send, from a seed: values at their limits, schemas that are not what is declared, bytes
that claim more than there is.

The writer is one of its own: a library would refuse most of this. A test compares it with fastavro's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from tests.hostile.generator import ENCODINGS, MEGABYTE, PLAIN, Record, hurt
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
    """A schema that a declared type is taken from."""
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
    """Of whatever type."""
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
    """Every type of a name is another one: Avro knows each name once."""
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


# Values

_WHOLE = [sign * 2**bits + by for bits in (0, 7, 8, 15, 24, 31, 53, 63) for sign in (1, -1) for by in (-1, 0, 1)]
_DAYS = [-719_162, -719_163, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, 0, -1, 19_782, 106_751_992]
_SECONDS = [-62_135_596_800, -62_135_596_801, 253_402_300_799, 253_402_300_800, 0, -1, 1_709_210_096]
_DOUBLES = [
    *(0.0, -0.0, 1.0, 1.5, 1.9, -1.5, 0.1, 2.675, 1.005, 5e-324, 1e-310, 1.7976931348623157e308, 3.4028235677973366e38),
    *(3.4028234663852886e38, 2.0**24 + 1, 2.0**31, 2.0**31 - 1, -(2.0**31), 2.0**53, 2.0**63, -(2.0**63), 1e10, 1e28),
    *(9999999999.99, 9999999999.995, 127.0, 128.0, float("nan"), float("inf"), float("-inf")),
]
_TEXTS = ["", " ", "a", "\0", "ä😀", "x" * 300, "5", "-7", "1.5", "true", "2024-02-29", "2024-02-29T12:34:56.789012Z"]


def whole(random: Random, bits: int) -> int:
    found = [number for number in _WHOLE if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)]
    return random.choice(
        (random.choice(found), random.randrange(-100, 100), random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)))
    )


def unscaled(random: Random, precision: int, size: int | None) -> bytes:
    """A decimal's bytes; some hold more digits than they may, some a number that looks small in its last 64 bits."""
    limit = 10**precision
    numbers = [0, 1, -1, limit - 1, 1 - limit, limit, -limit, random.randrange(limit), random.randrange(limit)]
    numbers += [2**64 + 5, -(2**64) - 5, 2**127 + 7, 2**63, 2**64 - 1]
    number = random.choice(numbers) if random.random() < 0.5 else random.randrange(min(limit, 10**10))
    if size is None:
        length = (number.bit_length() + 8) // 8 + random.choice((0, 0, 0, 1, 9))
        return (
            random.choice((b"", b"\0" * 40)) if random.random() < 0.02 else number.to_bytes(length, "big", signed=True)
        )
    limit = 2 ** (8 * size - 1)
    return max(-limit, min(limit - 1, number)).to_bytes(size, "big", signed=True)


def valid(random: Random, schema: Avro, wild: float) -> Any:
    """A value as the schema has it. Args: wild: how often it is a strange one.

    A union's is its branch's place and the value; texts are bytes.
    """
    if isinstance(schema, list):
        # Mostly what fits: the last of three does not.
        branch = random.choice((0, 0, 1)) if random.random() > wild else random.randrange(len(schema))
        return branch, valid(random, schema[branch], wild)
    is_wild = random.random() < wild
    kind = schema.get("logicalType") if isinstance(schema, dict) else None
    connect = schema.get("connect.name", "") if isinstance(schema, dict) else ""
    match plain(schema):
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "int" if kind == "date" or connect.endswith("Date"):
            return random.choice(_DAYS) if is_wild else random.randrange(-700_000, 2_900_000)
        case "int":
            return whole(random, 32) if is_wild else random.randrange(-100, 100)
        case "long" if "imestamp" in f"{kind}{connect}":
            each = {"s": 1_000, "o": 10**6, "a": 10**9}[_unit(f"{kind}{connect}")]
            if is_wild:
                limit = random.choice(_SECONDS) * each + random.choice((0, 1, -1))
                return limit if -(2**63) <= limit < 2**63 and random.random() < 0.7 else whole(random, 64)
            return random.randrange(-9_000_000_000, 9_000_000_000) * each + random.randrange(each)
        case "long":
            return whole(random, 64) if is_wild else random.randrange(-1_000, 1_000)
        case "float" | "double" as word:
            found = random.choice((*_DOUBLES, random.uniform(-9, 9))) if is_wild else float(random.randrange(99))
            if word == "double":
                return found
            try:
                return struct.unpack("<f", struct.pack("<f", found))[0]
            except OverflowError:
                return float("inf")
        case "bytes" | "fixed" if kind == "decimal":
            return (
                unscaled(random, schema["precision"], schema.get("size"))
                if is_wild
                else (random.randrange(-999, 1_000).to_bytes(schema.get("size", 2), "big", signed=True))
            )
        case "bytes":
            return (
                random.choice((b"", b"abc", b"\xc3\xa4", *ENCODINGS))
                if is_wild
                else random.randbytes(random.randrange(5))
            )
        case "fixed":
            return random.choice(
                (b"abcdefghijkl"[: schema["size"]].ljust(schema["size"], b"x"), random.randbytes(schema["size"]))
            )
        case "string":
            if not is_wild:
                return random.choice(_TEXTS).encode()
            return (
                random.choice(ENCODINGS) if random.random() < 0.2 else random.choice(PLAIN).encode("utf-8", "replace")
            )
        case "enum":
            return random.randrange(len(schema["symbols"]))
        case "array":
            return [valid(random, schema["items"], wild) for _ in range(random.choice((0, 1, 2, 3)))]
        case "map":
            some = (b"a", b"b", "ü".encode(), b"", *([b"\xff"] if is_wild else []))
            names = random.choices(some, k=random.randrange(4))
            return [(name, valid(random, schema["values"], wild)) for name in names]  # the same name twice, too
        case _:
            return {field["name"]: valid(random, field["type"], wild) for field in schema["fields"]}


def _unit(name: str) -> str:
    """s of millis, o of micros, a of nanos."""
    return "a" if "ano" in name else "o" if "icro" in name else "s"


def varint(number: int) -> bytes:
    """A long, as Avro writes it; more than 64 bits, too."""
    rest, found = (number << 1) ^ (number >> 127), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


class Writer:
    """Writes a value by its schema, and remembers where it says how much follows."""

    def __init__(self, random: Random) -> None:
        self.random, self.out = random, bytearray()
        self.claims: list[tuple[int, int]] = []  # where lengths, counts and branches begin and end

    def claim(self, number: int) -> None:
        begin = len(self.out)
        self.out += varint(number)
        self.claims.append((begin, len(self.out)))

    def write(self, schema: Avro, value: Any) -> None:
        if isinstance(schema, list):
            self.claim(value[0])
            self.write(schema[value[0]], value[1])
            return
        match plain(schema):
            case "null":
                pass
            case "boolean":
                self.out.append(value)
            case "int" | "long":
                self.out += varint(value)
            case "float":
                self.out += struct.pack("<f", value)
            case "double":
                self.out += struct.pack("<d", value)
            case "bytes" | "string":
                self.claim(len(value))
                self.out += value
            case "fixed":
                self.out += value
            case "enum":
                self.claim(value)
            case "array":
                self.blocks(value, lambda to, item: to.write(schema["items"], item))
            case "map":
                self.blocks(value, lambda to, item: (to.write("bytes", item[0]), to.write(schema["values"], item[1])))
            case _:
                for field in schema["fields"]:
                    self.write(field["type"], value[field["name"]])

    def blocks(self, items: Sequence[Any], write: Callable[[Writer, Any], Any]) -> None:
        """One block or two; some say how many bytes they have."""
        place = self.random.randrange(len(items) + 1)
        for block in filter(None, (items[:place], items[place:])):
            if self.random.random() < 0.7:
                self.claim(len(block))
                for item in block:
                    write(self, item)
                continue
            inner = Writer(self.random)
            for item in block:
                write(inner, item)
            self.claim(-len(block))
            self.claim(len(inner.out))
            self.claims += [(begin + len(self.out), end + len(self.out)) for begin, end in inner.claims]
            self.out += inner.out
        self.claim(0)


# What is claimed and is not there.
CLAIMS = [
    *(2**31 - 1, 2**31 - 9, 2**31, 2**30, 2**62, 2**63 - 1, -(2**63), -1, -2, -(2**31), 2**24, 10**6, 300, 2**64 + 1),
    *(-(2**31) + 8, -(2**62), 3, 7),
]


def framed(number: int, bare: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + bare


class AvroRecords:
    """Records by several schemas."""

    def __init__(self, seed: int | str, schemas: Mapping[int, Avro]) -> None:
        """Args: schemas: by their ids."""
        self.random, self.schemas = Random(seed), schemas

    def written(self, wild: float) -> tuple[int, Writer]:
        number = self.random.choice(list(self.schemas))
        writer = Writer(self.random)
        writer.write(self.schemas[number], self.value(self.schemas[number], wild))
        return number, writer

    def value(self, schema: Avro, wild: float) -> Any:
        return valid(self.random, schema, wild)

    def claiming(self) -> bytes:
        """A record of which one length, count or branch is another."""
        number, writer = self.written(0.0)
        begin, end = self.random.choice(writer.claims or [(0, 0)])
        claim = varint(self.random.choice(CLAIMS))
        if self.random.random() < 0.1:
            claim = b"\xff" * self.random.choice((5, 9, 10, 11, 100)) + b"\x01"
        return framed(number, bytes(writer.out[:begin]) + claim + bytes(writer.out[end:]))

    def hurt(self) -> bytes:
        (number, one), (_, other) = self.written(0.1), self.written(0.1)
        bare = hurt(self.random, bytes(one.out), bytes(other.out))
        return framed(number, bare)

    def shapes(self, strangers: Sequence[int]) -> Iterator[bytes | None]:
        """Frames that are none. Args: strangers: ids of what is no schema of these."""
        yield from (None, b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\0", b"{}", b"\1\0\0\0\1abc", b"\xff" * 9)
        for number, schema in self.schemas.items():
            writer = Writer(self.random)
            writer.write(schema, self.value(schema, 0.0))
            whole = bytes(writer.out)
            yield from (framed(number, b""), framed(number, whole + b"\0"), framed(number, whole + whole))
            yield from (framed(other, whole) for other in strangers)
        for number in list(self.schemas)[:2]:
            yield from (framed(number, bare * MEGABYTE) for bare in (b"\xff", b"\0", b"\2"))
        for _ in range(20):
            yield self.random.randbytes(self.random.randrange(30))

    def records(self, count: int, strangers: Sequence[int] = ()) -> list[Record]:
        """Args: count: how many, apart from the shapes."""
        values: list[bytes | None] = []
        for wild in (0.0, 0.1, 0.3):
            values += [framed(n, bytes(writer.out)) for n, writer in (self.written(wild) for _ in range(count // 5))]
        values += [self.claiming() for _ in range(count // 5)]
        values += [self.hurt() for _ in range(count // 5)]
        values += self.shapes(strangers)
        self.random.shuffle(values)
        return [Record(None, value) for value in values]


UNAVAILABLE = b"__debezium_unavailable_value"  # Debezium's word for what the database did not send


def envelope(row: Avro, is_inlined: bool) -> Avro:
    """Debezium's envelope of a row. Args: is_inlined: the row's schema stands in it twice, which Avro has not."""
    source = record("Source", {"lsn": ["null", "long"], "table": "string"})
    after = row if is_inlined else row["name"]
    parts = {"before": ["null", row], "after": ["null", after], "source": source, "op": "string"}
    return record("Envelope", {**parts, "ts_ms": ["null", "long"]})


KEY = record("Key", {"id": "long"})


class DebeziumAvroRecords(AvroRecords):
    """Envelopes of hostile rows, with Kafka's keys."""

    def __init__(self, seed: int | str, schemas: Mapping[int, Avro], key: int) -> None:
        """Args: key: the id of the key's schema."""
        super().__init__(seed, schemas)
        self.key = key

    def value(self, schema: Avro, wild: float) -> Any:
        found, random = valid(self.random, schema, wild), self.random
        op = random.choice(b"cccuuurrrddddmt") if random.random() > wild / 4 else random.choice(b"xCD\0\xff ")
        found["op"] = bytes([op]) * random.choice((1,) * 20 + (0, 2))
        is_delete = found["op"] == b"d"
        row = schema["fields"][0]["type"][1]
        images = {name: (1, valid(random, row, wild)) for name in ("before", "after")}
        for name in ("after" if is_delete else "before", random.choice(("before", "after"))):
            if random.random() < 0.5:
                images[name] = (0, None)
        for _, image in images.values():
            self.unavailable(row, image)
        return {**found, **images}

    def unavailable(self, row: Avro, image: Any) -> None:
        """Sometimes a large text has not been sent."""
        schema = next((field["type"] for field in row["fields"] if field["name"] == "name"), None)
        if image and self.random.random() < 0.1:
            if schema == "string":
                image["name"] = UNAVAILABLE
            elif isinstance(schema, list) and "string" in schema:
                image["name"] = (schema.index("string"), UNAVAILABLE)

    def records(self, count: int, strangers: Sequence[int] = ()) -> list[Record]:
        random = self.random

        def key() -> bytes | None:
            good = framed(self.key, varint(random.randrange(-(2**63), 2**63)))
            strange = (None, b"", b"{}", framed(random.choice(strangers), b"\2"), hurt(random, good, good))
            return good if random.random() < 0.7 else random.choice(strange)

        return [Record(key(), found.value) for found in super().records(count, strangers)]
