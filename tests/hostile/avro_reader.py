"""Reads Avro by its schema, as Avro's specification has it (1.12, "Data Serialization and Deserialization")."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tests.hostile.oracle import NoRow, Unclear

Avro = Any
DEBEZIUM = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."

_AMBIGUOUS = {"type": "ambiguous"}


def _is_ambiguous(union: list[Avro]) -> bool:
    """Whether nobody can say any more which branch a number came by, and so what it counts (docs/semantics.md)."""
    others = [option for option in union if option != "null"]
    kinds = {option["type"] if isinstance(option, dict) else option for option in others}
    return kinds in ({"int", "long"}, {"float", "double"}) and any(isinstance(option, dict) for option in others)


@dataclass(frozen=True)
class Held:
    """A value with the schema of the branch that it was written by; names of maps are bytes, symbols texts."""

    schema: Avro
    value: Any

    @property
    def kind(self) -> str:
        """What it stands for: a logical type, by Avro or Kafka Connect; else its type."""
        if not isinstance(self.schema, dict):
            return self.schema
        connect = self.schema.get("connect.name", "")
        if connect.startswith((DEBEZIUM, CONNECT)) and "logicalType" not in self.schema:
            return connect
        return self.schema.get("logicalType", self.schema["type"])


class Reader:
    """Reads bytes by their schema; raises NoRow where they end too soon or are wrong."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.is_doubtful = False  # no writer writes it so, and readers differ

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.data) - self.at:
            raise NoRow("more bytes than there are")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self, bits: int = 64) -> int:
        found = 0
        for place in range(10):
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                number = (found >> 1) ^ -(found & 1)
                if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) or place >= -(-bits // 7):
                    raise Unclear  # readers of 32 bits drop the rest of it, or refuse it
                return number
        raise NoRow("a number without end")

    def read(self, schema: Avro) -> Held:
        if isinstance(schema, list):
            branch = self.varint(32)
            if not 0 <= branch < len(schema):
                raise NoRow("no branch of the union")
            held = self.read(schema[branch])
            return Held(_AMBIGUOUS, held.value) if held.value is not None and _is_ambiguous(schema) else held
        return Held(schema, self.value(schema))

    def value(self, schema: Avro) -> Any:
        match schema["type"] if isinstance(schema, dict) else schema:
            case "null":
                return None
            case "boolean":
                byte = self.take(1)[0]
                if byte > 1:
                    raise Unclear
                return byte == 1
            case "int":
                return self.varint(32)
            case "long":
                return self.varint()
            case "float":
                return struct.unpack("<f", self.take(4))[0]
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "bytes" | "string":
                return self.take(self.varint())
            case "fixed":
                return self.take(schema["size"])
            case "enum":
                place = self.varint(32)
                if not 0 <= place < len(schema["symbols"]):
                    raise NoRow("no symbol of the enum")
                return schema["symbols"][place].encode()
            case "array":
                return list(self.items(lambda: self.read(schema["items"])))
            case "map":
                return dict(self.items(lambda: (self.value("string"), self.read(schema["values"]))))
            case _:
                return {field["name"]: self.read(field["type"]) for field in schema["fields"]}

    def items(self, read: Any) -> list[Any]:
        found: list[Any] = []
        while count := self.varint():
            if count == -(2**63):
                raise Unclear  # Java's reader takes it for the end, for it has no such positive number
            if count < 0:
                self.varint()  # the number of bytes, for readers that skip the block
            for _ in range(abs(count)):
                found.append(read())
                if len(found) > len(self.data):
                    raise NoRow("more items than bytes")
        return found


def unframed(value: bytes | None, schemas: dict[int, Any]) -> tuple[Any, bytes]:
    """What the registry has under the id in the frame, and what comes behind it; raises NoRow."""
    if value is None:
        raise NoRow("null value")
    if len(value) < 6 or value[0] != 0:
        raise NoRow("not framed")
    schema = schemas.get(int.from_bytes(value[1:5], "big"))
    if schema is None:
        raise NoRow("no schema of that id")
    return schema, value[5:]


def moment_unit(kind: str) -> str | None:
    """What a kind of moments counts."""
    known = {
        f"{DEBEZIUM}{name}Timestamp": unit for name, unit in (("", "millis"), ("Micro", "micros"), ("Nano", "nanos"))
    }
    known[f"{CONNECT}Timestamp"] = "millis"
    return known.get(kind) or (kind.rpartition("-")[2] if "timestamp-" in kind else None)
