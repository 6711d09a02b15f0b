"""Records in the wire format of a schema registry, and what becomes of them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import fastavro

from tests.hostile import avro, avro_schemas

AT = datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC)


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return avro_schemas.record(name, dict(fields))


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return avro.framed(schema_id, buffer.getvalue())
