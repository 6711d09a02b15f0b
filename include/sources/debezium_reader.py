"""Reads Debezium's envelopes of JSON without Spark, as docs/semantics.md, "Debezium", says. Pure.

The fields of `record_readers`, and more:

- old: the key columns as they were before an update; null: not known, or not asked for
- position: what orders the change beside columns, by its names in the pipeline file
- at: from when the change is valid, if one of Debezium's instants says it
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date
from decimal import Decimal
from typing import Any, Self

from sqlglot import exp

from include.pipeline_file import Pipeline
from include.pipeline_file.debezium import DATES, DECIMAL, INSTANTS, OF_TIME, POSITIONS, UNIT_BY_SCHEMA
from include.protocol.json_data import JsonObject, JsonValue
from include.sources.json_values import json_text, moment_of, parsed_json, text_as, value_as

_KINDS = {"c": "upsert", "u": "upsert", "r": "upsert", "d": "delete", "t": "truncate", "m": "none"}
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
_COUNT = re.compile(r"-?[0-9]{1,19}")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4}){0,15}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_LONG_NUMBER = re.compile(r"(.*\.)([0-9]{7,10})", re.DOTALL)
_DECIMAL_BYTES, _SCALE_MAX = 16, 76
_NO_UNIT = "nobody knows"


@dataclass(frozen=True)
class DebeziumReader:
    """Reads envelopes, and keys as Kafka Connect's JSON converter writes them."""

    pipeline: Pipeline
    types: Mapping[str, exp.DataType]  # of the columns that are read

    @classmethod
    def of(cls, pipeline: Pipeline, types: Mapping[str, exp.DataType]) -> Self:
        return cls(pipeline, types)

    def read(self, value: bytes) -> JsonObject | None:
        found = parsed_json(value)
        if not isinstance(found, dict):
            return None
        payload = found.get("payload")
        envelope = payload if isinstance(payload, dict) and payload.get("op") is not None else found
        kind = _KINDS.get(json_text(envelope.get("op")) or "")
        image = envelope.get("before" if kind == "delete" else "after")
        if kind is None or (kind == "upsert" and not isinstance(image, dict)):
            return None
        told = _told(found.get("schema"))
        image = image if isinstance(image, dict) and kind in ("upsert", "delete") else {}
        absent = [n for n in self.pipeline.partial_columns if kind == "upsert" and self._is_unavailable(n, image)]
        row = {**self.values_of(image, self.types, told), **dict.fromkeys(absent)}
        made: JsonObject = {"kind": kind, "absent": absent, "row": row}
        places = {name: _part(envelope, name) for name in self.pipeline.positions}
        made["position"] = {name: _sortable(name, place) for name, place in places.items()}
        if self.pipeline.keeps_history and self.pipeline.valid_from.name in INSTANTS:
            made["at"] = _instant(self.pipeline.valid_from.name, envelope)
        before = envelope.get("before")
        if kind == "upsert" and self._asks_old_keys and isinstance(before, dict):
            keys = {name: type_ for name, type_ in self.types.items() if name in self.pipeline.change.keys}
            made["old"] = self.values_of(before, keys, told)
        return made

    def values_of(self, image: JsonObject, types: Mapping[str, exp.DataType], told: JsonValue) -> JsonObject:
        """The values of an image's columns.

        Args:
            told: the fields of the schema that the record brings along; None: it brings none.
        """
        by_name: dict[str, JsonObject] = {}
        for field in told if isinstance(told, list) else ():
            if isinstance(field, dict):
                by_name.setdefault(str(field.get("field")), field)
        return {n: self._value(image.get(n), type_, by_name.get(n, {})) for n, type_ in types.items()}

    @property
    def _asks_old_keys(self) -> bool:
        return self.pipeline.moves_keys and not self.pipeline.change.previous_keys

    def _value(self, node: Any, type_: exp.DataType, said: JsonObject) -> Any:
        word, options = type_.this.value, self.pipeline.source.debezium
        if word == "DECIMAL":
            return None if node is None else _decimal(node, type_, said, options.decimals == "precise")
        if word not in ("DATE", *_TIMES):
            return value_as(node, type_, options.timestamps)
        text, name = json_text(node), json_text(said.get("name")) or ""
        if text is None:
            return None
        is_other = name.startswith(OF_TIME) or said.get("type") == "string"
        if word == "DATE":
            days = _days(text) if _COUNT.fullmatch(text) and (name in DATES or not is_other) else None
            return days or text_as(text, type_, None)
        return text_as(text, type_, UNIT_BY_SCHEMA.get(name, _NO_UNIT if is_other else options.timestamps))

    def _is_unavailable(self, name: str, image: JsonObject) -> bool:
        """Whether a column holds the placeholder for a value that the database did not send."""
        text, type_ = self.pipeline.source.debezium.unavailable, self.types[name]
        held = value_as(image.get(name), type_, None)
        match type_.this.value:
            case "MAP":
                return held == {text: text}
            case "ARRAY":
                item = type_.expressions[0].this.value
                if item in ("INT", "BIGINT"):
                    return held == [byte - 256 if byte > 127 else byte for byte in text.encode()]
                return held == [_encoded(text, item)]
            case word:
                return held == _encoded(text, word)


def _encoded(text: str, word: str) -> str:
    return base64.b64encode(text.encode()).decode() if word in ("BINARY", "VARBINARY") else text


def _told(schema: Any) -> Any:
    """The fields of the row in an envelope's schema."""
    parts = schema.get("fields") if isinstance(schema, dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("field") in ("after", "before"):
            return part.get("fields")
    return None


def _part(envelope: JsonObject, name: str) -> Any:
    """A position, as its type."""
    block = envelope.get("source") if name.startswith("source.") else envelope
    node = block.get(name.removeprefix("source.")) if isinstance(block, dict) else None
    return value_as(node, exp.DataType.build(POSITIONS[name], dialect="spark"), None)


def _sortable(name: str, place: Any) -> Any:
    """MySQL numbers its files with six digits, and with more when six are not enough. Longer numbers get a prefix that
    sorts after all digits, a later one for each further digit: so tables hold them."""
    long = _LONG_NUMBER.fullmatch(place) if name == "source.file" and isinstance(place, str) else None
    return place if long is None else f"{long[1]}{chr(len(long[2]) + ord('9') - 6)}{long[2]}"


def _instant(name: str, envelope: JsonObject) -> str | None:
    count = _part(envelope, name)
    moment = None if count is None else moment_of(str(count), INSTANTS[name])
    return None if moment is None else moment.replace(tzinfo=UTC).isoformat()


def _days(text: str) -> str | None:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + int(text)).isoformat()
    except (ValueError, OverflowError):
        return None


def _decimal(node: Any, type_: exp.DataType, said: JsonObject, is_precise: bool) -> Any:
    """A DECIMAL: a number, a text, the base64 of an unscaled integer, or an object of scale and value."""
    parameters = said.get("parameters")
    declared = json_text(parameters.get("scale")) if isinstance(parameters, dict) else None
    arguments = [int(part.name) for part in type_.expressions]
    scale = int(declared) if declared and re.fullmatch(r"-?[0-9]{1,9}", declared) else [*arguments, 0, 0][1]
    is_text = type(node) is str
    unscaled: str | None = None
    if isinstance(node, dict):
        told = value_as(node.get("scale"), exp.DataType.build("INT"), None)
        scale, unscaled = (told, json_text(node.get("value"))) if told is not None else (0, None)
    elif is_text:
        is_told = said.get("type") is not None or said.get("name") is not None
        unscaled = node if (said.get("name") == DECIMAL if is_told else is_precise) else None
    if unscaled is not None and _BASE64.fullmatch(unscaled):
        integer = base64.b64decode(unscaled)
        if 0 < len(integer) <= _DECIMAL_BYTES and abs(scale) <= _SCALE_MAX:
            exact = Decimal((0 if integer[0] < 128 else 1, _digits(integer), -scale))
            return text_as(f"{exact:f}", type_, None)
    is_number = said.get("type") == "string" if said.get("type") is not None else not is_precise
    return text_as(json_text(node) or "", type_, None) if not is_text or is_number else None


def _digits(integer: bytes) -> tuple[int, ...]:
    return tuple(map(int, str(abs(int.from_bytes(integer, "big", signed=True)))))
