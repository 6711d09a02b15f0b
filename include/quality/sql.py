"""Spark SQL text for the values and conditions of a suite's JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from include.lake.sql import spark_name, spark_text
from include.protocol.json_data import JsonMapping, JsonValue

BATCH = "{batch}"  # a query's name for the rows that it is about
REFERENCE = re.compile(r"\{(lake://[A-Za-z0-9_/.-]+?)(?:@(\d+))?\}")  # its name for another table, perhaps at a version
_NOW = re.compile(r"^\s*now\(\)\s*(?:(?P<sign>[-+])\s*timedelta\((?P<parts>[^)]*)\))?\s*$")
_PART = re.compile(r"^\s*(?P<unit>weeks|days|hours|minutes|seconds)\s*=\s*(?P<number>\d+)\s*$")
_COMPARED = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CONJUNCTIONS = {"and": " AND ", "or": " OR "}


class NotUnderstood(ValueError):
    """A part of a rule that has no meaning here; the message says what is allowed, and what was found."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"{expected}; found {found!r}")
        self.expected, self.found = expected, repr(found)


def json_literal(value: JsonValue) -> str:
    """A JSON value as Spark SQL; `{"$PARAMETER": "now() - timedelta(hours=2)"}` as the moment that it means."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if -(2**63) <= value < 2**63 else f"{value}BD"
        case float():
            return f"double('{value!r}')"
        case str():
            return spark_text(value)
        case {"$PARAMETER": str(text)}:
            return _moment(text)
        case _:
            raise NotUnderstood("text, a number, true, false, null or a parameter", value)


def json_literals(values: JsonValue) -> list[str]:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise NotUnderstood("a list of values", values)
    return [json_literal(value) for value in values]


def within(value: str, kwargs: JsonMapping) -> str:
    """SQL for a value between `min_value` and `max_value`, strictly or not, as the kwargs say."""
    bounds = []
    for name, operator, strict in (("min_value", ">", "strict_min"), ("max_value", "<", "strict_max")):
        if kwargs.get(name) is not None:
            bounds.append(f"{value} {operator}{'' if kwargs.get(strict) else '='} {json_literal(kwargs[name])}")
    if not bounds:
        raise NotUnderstood("min_value, max_value or both", "neither")
    return "(" + " AND ".join(bounds) + ")"


def row_condition(kwargs: JsonMapping) -> str:
    """SQL for the rows that a rule is about: its `row_condition`, in any form that Great Expectations reads."""
    condition = kwargs.get("row_condition")
    if not condition:
        return "true"
    if isinstance(condition, str):
        parser = kwargs.get("condition_parser")
        if parser != "spark":
            raise NotUnderstood("condition_parser spark, as the row_condition is a text", parser)
        return f"({condition})"
    return _condition(condition)


def _condition(condition: Any) -> str:
    match condition:
        case {"type": "pass_through", "pass_through_filter": str(text)}:
            return f"({text})"
        case {"type": "nullity", "column": {"name": str(column)}, "is_null": bool(is_null)}:
            return f"{spark_name(column)} IS {'' if is_null else 'NOT '}NULL"
        case {"type": "comparison", "column": {"name": str(column)}, "operator": "IN" | "NOT_IN" as word} as given:
            among = is_in(spark_name(column), given.get("parameter"))
            return among if word == "IN" else f"(NOT {among})"
        case {"type": "comparison", "column": {"name": str(column)}, "operator": str(sign)} as given if (
            sign in _COMPARED
        ):
            return f"({spark_name(column)} {_COMPARED[sign]} {json_literal(given.get('parameter'))})"
        case {"type": "and" | "or" as word, "conditions": list(parts)} if parts:
            return "(" + _CONJUNCTIONS[word].join(map(_condition, parts)) + ")"
        case _:
            raise NotUnderstood("a row_condition as Great Expectations writes it", condition)


def is_in(value: str, members: JsonValue) -> str:
    among = json_literals(members)
    return f"({value} IN ({', '.join(among)}))" if among else "false"


def _moment(text: str) -> str:
    """The only kind of parameter: this moment, or some time before or after it."""
    match = _NOW.match(text)
    parts = [_PART.match(part) for part in (match["parts"] or "").split(",")] if match and match["parts"] else []
    if match is None or None in parts or (match["sign"] and not parts):
        raise NotUnderstood("now(), or now() - timedelta(days=1, hours=2)", text)
    if not parts:
        return "current_timestamp()"
    intervals = " ".join(f"{part['number']} {part['unit']}" for part in parts if part)
    return f"(current_timestamp() {match['sign']} INTERVAL {intervals})"
