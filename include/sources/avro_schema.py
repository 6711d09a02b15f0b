"""The fields of an Avro schema's records: which there are, and what their numbers mean.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names", "Logical Types".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from include.protocol.json_data import JsonMapping, JsonObject

_NAMED = ("record", "enum", "fixed")
_SIMPLE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# The namespace of names without one. When every name has a namespace, no name depends on its place. (Java's parser,
# which Spark uses, would look for such a name in the namespace around it.)
_NO_NAMESPACE = "_none_"
# Logical types for which Spark has a type of its own, each with the base types that may carry it.
_LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    **{f"{local}timestamp-{unit}": ("long",) for local in ("", "local-") for unit in ("millis", "micros")},
}

_LONG = 19  # digits of a decimal that needs more than 64 bits


@dataclass(frozen=True)
class AvroSchema:
    """A schema with all schemas that it refers to."""

    text: str
    referred: tuple[str, ...] = ()  # texts of these schemas; one that others refer to comes before them

    @classmethod
    def of(cls, text: str, referred: Iterable[str] = ()) -> Self:
        """Makes a schema. The arguments are the fields."""
        return cls(text, tuple(referred))

    @property
    def fields(self) -> Mapping[str, AvroField]:
        """The fields of the record, by name; none if it is no record."""
        return _fields(self._root, self._definitions)

    @property
    def is_record(self) -> bool:
        return bool(self.fields)

    @property
    def is_bounded(self) -> bool:
        """Whether every item of every array takes bytes. If not, a few bytes could claim billions of items."""
        return _is_bounded(self._root, self._definitions)

    @property
    def read_as(self) -> str:
        """The schema's text for Spark to read records with.

        Spark cuts decimals of up to 18 digits to 64 bits, whatever their bytes hold: it makes 5 of 2^64 + 5. It reads
        longer ones as they are. So all decimals are declared long, except in a `fixed` of up to 8 bytes, which holds no
        more than 64 bits. Logical types that are not in `_LOGICAL` are left out: where a whole number is declared,
        Spark would cut a time of day to seconds.
        """
        return json.dumps(_as_read(self._root))

    @cached_property
    def _root(self) -> Any:
        """The schema with all names in full, and the definition of every type at its first mention."""
        others: JsonObject = {}
        for text in self.referred:
            _define(_in_full(_parsed(text), "", set(others)), others)
        return _inlined(_in_full(_parsed(self.text), "", set(others)), others, set())

    @cached_property
    def _definitions(self) -> JsonMapping:
        found: JsonObject = {}
        _define(self._root, found)
        return found


@dataclass(frozen=True)
class AvroField:
    """A field of a record: its type without null."""

    schema: Any
    definitions: JsonMapping

    @property
    def connect_name(self) -> str | None:
        """Kafka Connect's name of the type, such as `io.debezium.time.MicroTimestamp`."""
        return self.schema.get("connect.name") if isinstance(self.schema, dict) else None

    @property
    def kind(self) -> str:
        """Its logical type if Spark has a type for that, else its type (`union` for several)."""
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
        """The fields of a record, by name; none if it is no record."""
        return _fields(self.schema, self.definitions)

    @property
    def inner(self) -> AvroField:
        """The items of an array, or the values of a map."""
        inner = self.schema["items" if self.kind == "array" else "values"]
        return AvroField(_without_null(inner, self.definitions), self.definitions)

    @property
    def options(self) -> Sequence[AvroField]:
        """The options of a union, without null."""
        return [AvroField(_without_null(option, self.definitions), self.definitions) for option in self.schema]


def _parsed(text: str) -> Any:
    """A schema that is a bare name (`"string"`) may come with or without its quotes."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _fields(schema: Any, definitions: JsonMapping) -> Mapping[str, AvroField]:
    found = _without_null(schema, definitions)
    if not isinstance(found, dict) or found.get("type") != "record":
        return {}
    return {f["name"]: AvroField(_without_null(f["type"], definitions), definitions) for f in found["fields"]}


def _bare(schema: Any) -> Any:
    """A type without its attributes."""
    return schema["type"] if isinstance(schema, dict) and "type" in schema else schema


def _without_null(schema: Any, definitions: JsonMapping) -> Any:
    if isinstance(schema, list):
        others = [option for option in schema if option != "null"]
        for kinds in (["int", "long"], ["float", "double"]):
            if len(others) == 2 and sorted(map(_bare, others), key=str) == sorted(kinds):
                # Spark makes one number of them, and no longer says which one it was, nor what it counts.
                return kinds[1] if all(isinstance(option, str) for option in others) else {"type": "unknown"}
        return _without_null(others[0], definitions) if len(others) == 1 else others
    if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
        return _without_null(schema["type"], definitions)
    if isinstance(schema, str):
        return definitions.get(schema, schema)
    return schema


def _is_bounded(schema: Any, definitions: JsonMapping) -> bool:
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
            return True  # a name: its type is checked where it is defined


def _takes_none(schema: Any, definitions: JsonMapping, within: tuple[str, ...] = ()) -> bool:
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
    """The schema with every type inside it changed; the schema itself if it has none."""
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
        namespace: of the type around it. known: full names of the types that are defined before it; its own is added.
    """
    match schema:
        case {"type": kind, "name": str() as name} if kind in _NAMED:
            # A name with dots is a full one, whatever namespace is given beside it.
            own, _, short = name.rpartition(".")
            own = own or schema.get("namespace", namespace)
            full = f"{own or _NO_NAMESPACE}.{short}"
            known.add(full)
            bare = {key: value for key, value in schema.items() if key not in ("namespace", "aliases")}
            return {**_with_parts(bare, lambda inner: _in_full(inner, own, known)), "name": full}
        case {"type": str() as name} if name not in (*_SIMPLE, *_NAMED, "array", "map"):
            return _in_full(name, namespace, known)
        case str() if schema not in _SIMPLE:
            # It is in the namespace around it or, if no type there has that name, in none: as in Java's parser.
            full = schema if "." in schema else f"{namespace or _NO_NAMESPACE}.{schema}"
            without = f"{_NO_NAMESPACE}.{schema.rpartition('.')[2]}"
            return without if full not in known and without in known else full
        case _:
            return _with_parts(schema, lambda inner: _in_full(inner, namespace, known))


def _define(schema: Any, definitions: JsonObject) -> None:
    """Adds every named type to the definitions, by its full name."""
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


def _inlined(schema: Any, definitions: JsonMapping, done: set[str]) -> Any:
    """The schema with the definition of every type at its first mention; all names are full ones.

    Args:
        done: the types that are defined by now.
    """
    match schema:
        case str() if schema in definitions and schema not in done:
            return _inlined(definitions[schema], definitions, done)
        case {"type": kind, "name": name} if kind in _NAMED and name in done:
            return name  # defined again in another of the schemas: the same type
        case {"type": kind, "name": name} if kind in _NAMED:
            done.add(name)
    return _with_parts(schema, lambda inner: _inlined(inner, definitions, done))
