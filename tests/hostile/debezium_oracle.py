"""What an envelope of Debezium's JSON is."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

from tests.hostile.json_oracle import from_base64, json_object, of_json
from tests.hostile.oracle import EPOCH, EXACT, NoRow, Number, Row, Unclear, as_decimal, integer
from tests.hostile.types import Schema, Type


def debezium_row(value: bytes | None, schema: Schema, unit: str) -> Row | None:
    """The row of an envelope without its schema; None: it is no change of a row."""
    if value is None:
        return None
    found = json_object(value)
    payload = found.get("payload")
    if isinstance(payload, dict) and payload.get("op") is not None:
        found = payload
    op, row = found.get("op"), found.get("after")
    if op == "m":
        return None
    if op not in ("c", "u", "r") or not isinstance(row, dict):
        raise NoRow("no envelope")
    before, schema_told = found.get("before"), found.get("schema")
    if before is not None or schema_told is not None:
        raise Unclear
    return {name: _of_image(row.get(name), type_, unit) for name, type_ in schema.items()}


def _of_image(node: Any, type_: Type, unit: str) -> Any:
    is_text, is_number = type(node) is str, isinstance(node, Number)
    match type_.word:
        case "DECIMAL" if is_text:
            unscaled = from_base64(node)
            if not 1 <= len(unscaled) <= 16:
                raise NoRow("no bytes of a decimal")
            exact = Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-type_.scale, EXACT)
            return as_decimal(f"{exact:f}", type_)
        case "DECIMAL" if isinstance(node, dict):
            raise Unclear
        case "DATE" if is_number or (is_text and re.fullmatch(r"-?[0-9]{1,19}", node)):
            try:
                return date.fromordinal(EPOCH.date().toordinal() + integer(node, 32))
            except (ValueError, OverflowError) as error:
                raise NoRow("beyond the years 1 to 9999") from error
        case _:
            return of_json(node, type_, unit)
