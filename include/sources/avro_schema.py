"""An Avro schema as far as its records' fields go: which there are, and what their numbers mean.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

_NAMED = ("record", "enum", "fixed")
_SIMPLE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# Where names are put that have no namespace: with one in every name none depends on where it stands. (Java's parser, by
# which Spark reads, would look for such a name in the namespace around it.)
_NO_NAMESPACE = "_none_"
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

    text: str
    referred: tuple[str, ...] = ()  # texts of the schemas that it refers to, those first that others refer to

    @classmethod
    def of(cls, text: str, referred: Iterable[str] = ()) -> Self:
        """Args: see the fields."""
        return cls(text, tuple(referred))

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
        """The text that Spark is to read records by.

        It cuts decimals of up to 18 digits to 64 bits, whatever their bytes hold, and makes 5 of 2^64 + 5; longer ones
        it reads as they are. Of a logical type that is not among ours it is not told: a time of a day it would cut to
        seconds where a whole number is declared.
        """
        return json.dumps(_as_read(self._root))

    @cached_property
    def _root(self) -> Any:
        """With all names in full, and the definition of every type where it is named first."""
        others: dict[str, Any] = {}
        for text in self.referred:
            _define(_in_full(_parsed(text), "", set(others)), others)
        return _inlined(_in_full(_parsed(self.text), "", set(others)), others, set())

    @cached_property
    def _definitions(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        _define(self._root, found)
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
        return definitions.get(schema, schema)
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


def _with_parts(schema: Any, changed: Callable[[Any], Any]) -> Any:
    """The schema with every type that stands within it changed; itself, if it has none."""
    match schema:
        case list():
            return [changed(option) for option in schema]
        case {"type": "array", "items": inner}:
            return {**schema, "items": changed(inner)}
        case {"type": "map", "values": inner}:
            return {**schema, "values": changed(inner)}
        case {"type": "record", "fields": fields}:
            return {**schema, "fields": [{**field, "type": changed(field["type"])} for field in fields]}
        case {"type": dict() | list() as inner}:
            return {**schema, "type": changed(inner)}
        case _:
            return schema


def _as_read(schema: Any) -> Any:
    match schema:
        case {"logicalType": logical} if schema.get("type") not in _LOGICAL.get(str(logical), ()):
            return _as_read({key: value for key, value in schema.items() if key != "logicalType"})
        case {"logicalType": "decimal", "precision": int() as digits} if digits < _LONG and schema.get("size", 9) > 8:
            return {**schema, "precision": _LONG}
        case _:
            return _with_parts(schema, _as_read)


def _in_full(schema: Any, namespace: str, known: set[str]) -> Any:
    """The schema with the namespace in every name.

    Args:
        namespace: of the type around it. known: full names of the types that are defined before it; takes in its own.
    """
    match schema:
        case {"type": kind, "name": str() as name} if kind in _NAMED:
            # A name with dots is a full one, whatever stands beside it.
            own, _, short = name.rpartition(".")
            own = own or schema.get("namespace", namespace)
            full = f"{own or _NO_NAMESPACE}.{short}"
            known.add(full)
            bare = {key: value for key, value in schema.items() if key not in ("namespace", "aliases")}
            return {**_with_parts(bare, lambda inner: _in_full(inner, own, known)), "name": full}
        case {"type": str() as name} if name not in (*_SIMPLE, *_NAMED, "array", "map"):
            return _in_full(name, namespace, known)
        case str() if schema not in _SIMPLE:
            # In the namespace around it; else without any, as Java's parser has it.
            full = schema if "." in schema else f"{namespace or _NO_NAMESPACE}.{schema}"
            without = f"{_NO_NAMESPACE}.{schema.rpartition('.')[2]}"
            return without if full not in known and without in known else full
        case _:
            return _with_parts(schema, lambda inner: _in_full(inner, namespace, known))


def _define(schema: Any, definitions: dict[str, Any]) -> None:
    """Takes in every named type, by its full name."""
    match schema:
        case list():
            for option in schema:
                _define(option, definitions)
        case {"type": kind, "name": name} if kind in _NAMED:
            definitions.setdefault(name, schema)
            for field in schema.get("fields", ()):
                _define(field["type"], definitions)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() | list() as inner}:
            _define(inner, definitions)


def _inlined(schema: Any, definitions: Mapping[str, Any], done: set[str]) -> Any:
    """The schema with the definition of every type where it is named first; all names are full ones.

    Args: done: the types that are defined by now.
    """
    match schema:
        case str() if schema in definitions and schema not in done:
            return _inlined(definitions[schema], definitions, done)
        case {"type": kind, "name": name} if kind in _NAMED and name in done:
            return name  # once more, in another of the schemas: the same type
        case {"type": kind, "name": name} if kind in _NAMED:
            done.add(name)
    return _with_parts(schema, lambda inner: _inlined(inner, definitions, done))
