"""Avro that no producer should send, from a seed: values at their limits, schemas that are not what is declared, bytes
that claim more than there is.

The writer is one of its own: a library would refuse most of this. A test compares it with fastavro's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from tests.hostile.accidents import hurt
from tests.hostile.avro_schemas import Avro, plain, record
from tests.hostile.avro_values import valid
from tests.hostile.generator import MEGABYTE, Record


def varint(number: int) -> bytes:
    """A long, as Avro writes it; longer numbers than 64 bits, too."""
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


# Lengths and counts that claim more than there is.
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
        """A record with one wrong length, count or branch."""
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
        """Broken frames. Args: strangers: ids that belong to none of these schemas."""
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
    """Debezium's envelope of a row. Args: is_inlined: the row's schema stands in it twice, which Avro does not
    allow."""
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
