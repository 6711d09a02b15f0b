"""What a line of CSV is."""

from __future__ import annotations

from tests.hostile.oracle import NoRow, Row, Unclear, of_text, text_of
from tests.hostile.types import Schema


def csv_row(value: bytes | None, schema: Schema, unit: str | None) -> Row:
    """The row of a line; an empty field is null. Raises Unclear where programs differ."""
    line = text_of(value).rstrip("\r\n")
    fields = line.split(";")
    if any(character in line for character in '"\\\r\n'):
        raise Unclear
    if len(fields) != len(schema):
        raise NoRow(f"{len(fields)} fields")
    pairs = zip(schema.items(), fields, strict=True)
    return {name: of_text(field, type_, unit) if field else None for (name, type_), field in pairs}
