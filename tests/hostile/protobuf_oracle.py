"""What a record of Protobuf is, by Protocol Buffers' documentation ("Encoding", "ProtoJSON Format"), Confluent's ("Wire
format") and Lakemark's."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.hostile import json_oracle, oracle
from tests.hostile.avro_reader import unframed
from tests.hostile.oracle import NoRow, Number, Row, Unclear
from tests.hostile.protobuf_messages import COLOURS, KINDS, ONE_OF, PACKED, PLACES, WIRE
from tests.hostile.types import Schema

_DEPTH_SURE, _DEPTH_MAX = 90, 110  # messages within messages: all read so many, none more than those
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def is_over(self) -> bool:
        return self.at == len(self.data)

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise NoRow("more bytes than there are")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        found = 0
        for place in range(10):
            byte = self.take(1)[0]
            if place == 9 and byte > 1:
                if byte > 0x7F:
                    raise NoRow("a number without end")
                raise Unclear  # beyond 64 bits: dropped, or refused
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return found
        raise NoRow("a number without end")

    def length(self) -> bytes:
        return self.take(self.varint())

    def tag(self, in_group: bool = False) -> tuple[int, int]:
        tag = self.varint()
        if in_group and tag < 6:
            raise Unclear  # C++'s own decoder, and so Python's, skips a field without a number; Java's refuses it
        if tag >= 2**32 or tag >> 3 == 0 or tag & 7 > 5:
            raise NoRow("no field")
        return tag >> 3, tag & 7

    def payload(self, number: int, wire: int, depth: int) -> Any:
        """The payload of a field of any kind; groups are skipped."""
        match wire:
            case 0:
                return self.varint()
            case 1:
                return self.take(8)
            case 5:
                return self.take(4)
            case 2:
                return self.length()
            case 3:
                _check(depth)
                while (inside := self.tag(in_group=True)) != (number, 4):
                    if inside[1] == 4:
                        raise NoRow("the end of another group")
                    self.payload(*inside, depth + 1)
                return None
            case _:
                raise NoRow("the end of no group")


def _check(depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise NoRow("too deep")
    if depth > _DEPTH_SURE:
        raise Unclear


def protobuf_row(value: bytes | None, schemas: dict[int, Any], columns: Schema) -> Row:
    _, bare = unframed(value, schemas)
    reader = Reader(bare)
    count = _index(reader)
    if count < 0 or count > len(bare):
        raise NoRow("no count of indexes")
    path = tuple(_index(reader) for _ in range(count)) or (0,)
    if path not in PLACES:
        raise NoRow("no such message")
    message = _as_json(PLACES[path], _parsed(PLACES[path], bare[reader.at :], {}, 1))
    return {name: json_oracle.of_json(message.get(name), type_, None) for name, type_ in columns.items()}


def _index(reader: Reader) -> int:
    found = reader.varint()
    return (found >> 1) ^ -(found & 1)


def _parsed(kind: str, data: bytes, into: dict[str, Any], depth: int) -> dict[str, Any]:
    """Fields by name, messages as such dictionaries; what comes again is merged."""
    _check(depth)
    reader, fields = Reader(data), KINDS[kind]
    while not reader.is_over:
        number, wire = reader.tag()
        payload = reader.payload(number, wire, depth + 1)
        name, marked = fields.get(number, ("", ""))
        bare = marked.lstrip("*?")
        own = WIRE.get(bare, 2)
        if not marked or (wire != own and not (marked[0] == "*" and wire == 2)):
            if kind.startswith("map "):
                raise Unclear  # C++'s own decoder, and so Python's, leaves such an entry out; Java's takes it
            continue  # unknown
        if name in ONE_OF:
            for other in ONE_OF:
                into.pop(other, None)
        if marked[0] == "*":
            items = _unpacked(bare, payload) if wire == 2 and own != 2 else [_scalar(bare, payload)]
            into.setdefault(name, []).extend(items)
        elif bare.startswith("map "):
            entry = _parsed(bare, payload, {}, depth + 1)
            key = entry.get("key", "" if bare == "map counts" else 0)
            value = entry.get("value", 0 if bare == "map counts" else {})
            into.setdefault(name, {})[str(key)] = value
        elif bare in KINDS:
            into[name] = _parsed(bare, payload, into.get(name, {}), depth + 1)
        else:
            into[name] = _scalar(bare, payload)
    return into


def _unpacked(kind: str, data: bytes) -> list[Any]:
    reader, found = Reader(data), []
    while not reader.is_over:
        found.append(_scalar(kind, reader.payload(0, WIRE[kind], 0)))
    return found


def _scalar(kind: str, payload: Any) -> Any:
    match kind:
        case "string":
            return oracle.text_of(payload)
        case "bytes":
            return payload
        case "bool":
            return payload != 0
        case "uint32":
            return payload % 2**32
        case "uint64":
            return payload
        case "int32" | "enum":
            return _signed(payload, 32)
        case "int64":
            return _signed(payload, 64)
        case "sint32" | "sint64":
            cut = payload % 2**32 if kind == "sint32" else payload
            return (cut >> 1) ^ -(cut & 1)
        case _:
            return struct.unpack(PACKED[kind], payload)[0]


def _signed(number: int, bits: int) -> int:
    cut = number % 2**bits
    return cut - 2**bits if cut >= 2 ** (bits - 1) else cut


def _as_json(kind: str, held: dict[str, Any]) -> Any:
    """A value as ProtoJSON has it, except that 64-bit numbers are numbers."""
    if kind == "Timestamp":
        return _stamp(held.get("seconds", 0), held.get("nanos", 0))
    if kind.endswith("Value"):
        [(_, inner)] = KINDS[kind].values()
        return _node(inner, held.get("value", _default(inner)))
    found: dict[str, Any] = {}
    for name, marked in KINDS[kind].values():
        bare = marked.lstrip("*?")
        if marked[0] == "*":
            found[name] = [_node(bare, item) for item in held.get(name, [])]
        elif bare.startswith("map "):
            inner = KINDS[bare][2][1]
            found[name] = {key: _node(inner, value) for key, value in held.get(name, {}).items()}
        elif name in held:
            found[name] = _node(bare, held[name])
        elif marked[0] != "?" and bare not in KINDS:
            found[name] = _node(bare, _default(bare))
    return found


def _default(kind: str) -> Any:
    return {"string": "", "bytes": b"", "bool": False, "float": 0.0, "double": 0.0}.get(kind, 0)


def _node(kind: str, value: Any) -> Any:
    match kind:
        case kind if kind in KINDS:
            return _as_json(kind, value)
        case "enum":
            return COLOURS.get(value, Number(value))
        case "bytes":
            return base64.b64encode(value).decode()
        case "string" | "bool":
            return value
        case "float" | "double" if value - value != 0:
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case _:
            return Number(repr(value))


def _stamp(seconds: int, nanos: int) -> str:
    if not -62_135_596_800 <= seconds <= 253_402_300_799 or not 0 <= nanos < 10**9:
        raise NoRow("no Timestamp")
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}.{nanos:09}Z"
