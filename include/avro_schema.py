"""An Avro schema as far as its records' fields go: which there are, and what their numbers mean.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

_NAMED = ("record", "enum", "fixed")
# Of which types Spark makes another one than the bare type is.
_LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    **{f"{local}timestamp-{unit}": ("long",) for local in ("", "local-") for unit in ("millis", "micros")},
}

_LONG = 19  # digits of a decimal that are more than 64 bits


@dataclass(frozen=True)
class AvroSchema:
    """A schema with all that it refers to."""

    text: str  # JSON that needs no other

    @classmethod
    def of(cls, text: str, referred: Iterable[str] = ()) -> Self:
        """Args: referred: texts of the schemas that it refers to, those first that others refer to."""
        definitions: dict[str, Any] = {}
        for other in referred:
            _define(_parsed(other), "", definitions)
        return cls(json.dumps(_inlined(_parsed(text), "", definitions, set())) if definitions else text)

    @property
    def fields(self) -> Mapping[str, AvroField]:
        """Of the record, by name; none if it is no record."""
        return _fields(self._root, self._definitions)

    @property
    def is_record(self) -> bool:
        return bool(self.fields)

    @property
    def is_bounded(self) -> bool:
        """Whether all that is counted takes bytes: a few could claim billions of items that take none."""
        return _is_bounded(self._root, self._definitions)

    @property
    def read_as(self) -> str:
        """The text that Spark is to read records by. It cuts decimals of up to 18 digits to 64 bits, whatever their
        bytes hold, and makes 5 of 2^64 + 5; longer ones it reads as they are."""
        return json.dumps(_with_long_decimals(self._root))

    @cached_property
    def _root(self) -> Any:
        return _parsed(self.text)

    @cached_property
    def _definitions(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        _define(self._root, "", found)
        return found


@dataclass(frozen=True)
class AvroField:
    """A field of a record: its type, null aside."""

    schema: Any
    definitions: Mapping[str, Any]

    @property
    def connect_name(self) -> str | None:
        """What Kafka Connect calls the type: `io.debezium.time.MicroTimestamp`."""
        return self.schema.get("connect.name") if isinstance(self.schema, dict) else None

    @property
    def kind(self) -> str:
        """What it is: its logical type, where Spark has a type for that; else its type (`union` of several)."""
        match self.schema:
            case list():
                return "union"
            case {"type": str() as type_, "logicalType": str() as logical} if type_ in _LOGICAL.get(logical, ()):
                return logical
            case {"type": str() as type_}:
                return type_
            case str() as type_:
                return type_
            case _:
                return "unknown"

    @property
    def logical_type(self) -> str | None:
        return self.schema.get("logicalType") if isinstance(self.schema, dict) else None

    @property
    def fields(self) -> Mapping[str, AvroField]:
        """Of a record, by name; none if it is no record."""
        return _fields(self.schema, self.definitions)

    @property
    def inner(self) -> AvroField:
        """Of an array's items, or a map's values."""
        inner = self.schema["items" if self.kind == "array" else "values"]
        return AvroField(_without_null(inner, self.definitions), self.definitions)

    @property
    def options(self) -> Sequence[AvroField]:
        """Of a union, null aside."""
        return [AvroField(_without_null(option, self.definitions), self.definitions) for option in self.schema]


def _parsed(text: str) -> Any:
    """A schema that is a bare name (`"string"`) may come with or without its quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _fields(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, AvroField]:
    found = _without_null(schema, definitions)
    if not isinstance(found, dict) or found.get("type") != "record":
        return {}
    return {f["name"]: AvroField(_without_null(f["type"], definitions), definitions) for f in found["fields"]}


def _bare(schema: Any) -> Any:
    """A type without what is said of it."""
    return schema["type"] if isinstance(schema, dict) and "type" in schema else schema


def _without_null(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        others = [option for option in schema if option != "null"]
        for kinds in (["int", "long"], ["float", "double"]):
            if len(others) == 2 and sorted(map(_bare, others), key=str) == sorted(kinds):
                # Spark makes one number of them, and says no more which one it was, nor what that counts.
                return kinds[1] if all(isinstance(option, str) for option in others) else {"type": "unknown"}
        return _without_null(others[0], definitions) if len(others) == 1 else others
    if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
        return _without_null(schema["type"], definitions)
    if isinstance(schema, str):
        return definitions.get(schema, definitions.get(schema.rpartition(".")[2], schema))
    return schema


def _is_bounded(schema: Any, definitions: Mapping[str, Any]) -> bool:
    match schema:
        case list():
            return all(_is_bounded(option, definitions) for option in schema)
        case {"type": "array", "items": inner}:
            return not _takes_none(inner, definitions) and _is_bounded(inner, definitions)
        case {"type": "map", "values": inner} | {"type": dict() | list() as inner}:
            return _is_bounded(inner, definitions)
        case {"type": "record", "fields": fields}:
            return all(_is_bounded(field["type"], definitions) for field in fields)
        case _:
            return True  # a name: what it stands for is looked at where it is defined


def _takes_none(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...] = ()) -> bool:
    """Whether a value takes no bytes."""
    match schema:
        case "null":
            return True
        case str() if schema in definitions and schema not in within:
            return _takes_none(definitions[schema], definitions, (*within, schema))
        case {"type": "fixed", "size": size}:
            return size == 0
        case {"type": "record", "fields": fields}:
            return all(_takes_none(field["type"], definitions, within) for field in fields)
        case {"type": "null" | dict() as inner}:
            return _takes_none(inner, definitions, within)
        case _:
            return False


def _with_long_decimals(schema: Any) -> Any:
    match schema:
        case list():
            return [_with_long_decimals(option) for option in schema]
        case {"logicalType": "decimal", "precision": int() as digits} if digits < _LONG and schema.get("size", 9) > 8:
            return {**schema, "precision": _LONG}
        case dict():
            found = {name: _with_long_decimals(schema[name]) for name in ("type", "items", "values") if name in schema}
            if schema.get("type") == "record":
                fields = [{**field, "type": _with_long_decimals(field["type"])} for field in schema["fields"]]
                found["fields"] = fields
            return {**schema, **found}
        case _:
            return schema


def _define(schema: Any, namespace: str, definitions: dict[str, Any]) -> None:
    """Takes in every named type, by its name with and without the namespace."""
    match schema:
        case list():
            for option in schema:
                _define(option, namespace, definitions)
        case {"type": kind, "name": name} if kind in _NAMED:
            namespace = schema.get("namespace", name.rpartition(".")[0] or namespace)
            short = name.rpartition(".")[2]
            for full in (short, f"{namespace}.{short}" if namespace else short):
                definitions.setdefault(full, schema)
            for field in schema.get("fields", ()):
                _define(field["type"], namespace, definitions)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _define(inner, namespace, definitions)
        case {"type": dict() | list() as inner}:
            _define(inner, namespace, definitions)


def _inlined(schema: Any, namespace: str, definitions: Mapping[str, Any], done: set[str]) -> Any:
    """The schema with the definition of every type where it is named first."""
    match schema:
        case list():
            return [_inlined(option, namespace, definitions, done) for option in schema]
        case str() if schema in definitions or f"{namespace}.{schema}" in definitions:
            full = schema if schema in definitions else f"{namespace}.{schema}"
            return schema if full in done else _inlined(definitions[full], namespace, definitions, done)
        case {"type": kind, "name": name} if kind in _NAMED:
            namespace = schema.get("namespace", name.rpartition(".")[0] or namespace)
            short = name.rpartition(".")[2]
            done |= {short, f"{namespace}.{short}"}
            if kind != "record":
                return schema
            fields = [
                {**field, "type": _inlined(field["type"], namespace, definitions, done)} for field in schema["fields"]
            ]
            return {**schema, "fields": fields}
        case {"type": "array", "items": inner}:
            return {**schema, "items": _inlined(inner, namespace, definitions, done)}
        case {"type": "map", "values": inner}:
            return {**schema, "values": _inlined(inner, namespace, definitions, done)}
        case {"type": dict() | list() as inner}:
            return {**schema, "type": _inlined(inner, namespace, definitions, done)}
        case _:
            return schema
