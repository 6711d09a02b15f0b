"""Whether a value of a table is the one that an oracle expects."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tests.hostile.json_oracle import parsed
from tests.hostile.oracle import Json, Number, Text


def is_same(expected: Any, found: Any) -> bool:
    """Whether a value of a table is the expected one."""
    match expected:
        case Json():
            return isinstance(found, str) and _is_same_json(expected.tree, parsed(found))
        case Text():
            return isinstance(found, str) and expected.is_said_by(found)
        case float():
            return isinstance(found, float) and (expected == found or (expected != expected and found != found))
        case dict():
            pairs = found.items() if isinstance(found, Mapping) else found
            if not isinstance(found, (Mapping, list)):
                return False
            held = dict(pairs)
            return held.keys() == expected.keys() and all(is_same(expected[name], held[name]) for name in expected)
        case list():
            return isinstance(found, list) and len(found) == len(expected) and all(map(is_same, expected, found))
        case bool() | None:
            return found is expected
        case Decimal():
            return isinstance(found, Decimal) and found == expected
        case _:
            return type(found) is type(expected) and found == expected


def _is_same_json(expected: Any, found: Any) -> bool:
    match expected:
        case Number():
            return isinstance(found, Number) and (expected == found or float(expected) == float(found))
        case dict():
            same = isinstance(found, dict) and expected.keys() == found.keys()
            return same and all(_is_same_json(value, found[name]) for name, value in expected.items())
        case list():
            same = isinstance(found, list) and len(expected) == len(found)
            return same and all(map(_is_same_json, expected, found))
        case _:
            return type(found) is type(expected) and found == expected
