"""A Protobuf schema of a registry, compiled to bytes with which a worker decodes records.

Source: Protocol Buffers' documentation, "ProtoJSON Format" for how values are written as JSON, with two differences:
64-bit integers stay numbers, and a field that has presence and is not set is left out (its column may keep its value).
"""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_FILE = "lakemark_schema.proto"


class NotProtobuf(ValueError):
    """The schema does not compile; the message says why."""


@dataclass(frozen=True)
class ProtobufSchema:
    """Descriptors of a file and all that it imports: a serialized FileDescriptorSet."""

    descriptors: bytes

    @classmethod
    def of(cls, text: str, referred: Mapping[str, str]) -> ProtobufSchema:
        """Compiles a schema's text.

        Args:
            referred: texts of the files that it imports, by the names that it imports them by.

        Raises:
            NotProtobuf: protoc does not accept it.
        """
        from grpc_tools import protoc

        included = Path(protoc.__file__).parent / "_proto"  # google/protobuf/timestamp.proto ...
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {**referred, _FILE: text}.items():
                path = Path(folder, name)
                if not path.resolve().is_relative_to(Path(folder).resolve()):
                    raise NotProtobuf(f"an import that leaves its folder: {name}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            made = Path(folder, "made")
            arguments = ["protoc", f"-I{folder}", f"-I{included}", "--include_imports", f"--descriptor_set_out={made}"]
            if protoc.main([*arguments, _FILE]) != 0:
                raise NotProtobuf("protoc does not accept it; its words are in the log")
            return cls(made.read_bytes())


@lru_cache  # a worker calls it for every record
def json_decoder(descriptors: bytes) -> Callable[[bytes], str | None]:
    """A function that decodes framed bytes (a zero byte, four of the schema's id, the message's indexes, the message)
    to JSON, and other bytes to None. It runs in Spark's workers."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    own = pool.FindFileByName(_FILE)
    top = list(own.message_types_by_name.values())

    def decoded(framed: bytes) -> str | None:
        try:
            indexes, start = _indexes(framed, 5)
            types = top
            for index in indexes:
                if not 0 <= index < len(types):  # Python would count from the end
                    return None
                descriptor = types[index]
                types = descriptor.nested_types
            message = message_factory.GetMessageClass(descriptor).FromString(framed[start:])
            return json.dumps(_as_json(message))
        except (DecodeError, IndexError, ValueError, RecursionError):  # also a Timestamp in the year 50,000
            return None

    return decoded


def _indexes(framed: bytes, at: int) -> tuple[list[int], int]:
    """Which message of the file it is, and where it begins. Source: Confluent's documentation, "Wire format"."""
    count, at = _varint(framed, at)
    if count == 0:
        return [0], at
    if count < 0:
        raise ValueError("a negative count")
    found = []
    for _ in range(count):
        index, at = _varint(framed, at)
        found.append(index)
    return found, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a zigzag varint. Raises IndexError if the bytes end too soon, and ValueError beyond 64 bits: without that
    limit, reading a number of a megabyte of such bytes would take minutes."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number without end")


def _as_json(message: Any) -> Any:
    known = _well_known(message)
    return known if known is not NotImplemented else dict(_fields(message))


def _well_known(message: Any) -> Any:
    """The value of a type that stands for one value; NotImplemented for all others."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return message.ToJsonString()
    if name.startswith("google.protobuf.") and name.endswith("Value") and "value" in message.DESCRIPTOR.fields_by_name:
        return _value(message.DESCRIPTOR.fields_by_name["value"], message.value)  # Int64Value, StringValue ...
    return NotImplemented


def _fields(message: Any) -> Iterator[tuple[str, Any]]:
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            yield field.name, {_key(key): _value(inner, value[key]) for key in value}
        elif field.is_repeated:
            yield field.name, [_value(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            yield field.name, _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _as_json(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named else value
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
