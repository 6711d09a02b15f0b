"""What Debezium's envelope holds, as far as a pipeline file speaks of it.

Source: Debezium's documentation of its connectors for PostgreSQL, MySQL, SQL Server and Oracle, "Data change events".
"""

from __future__ import annotations

from include.schema_ddl import Column

UNAVAILABLE = "__debezium_unavailable_value"  # stands for a large value that the database did not send (TOAST)

# Positions by which changes can be ordered: `source.NAME` of the source block, and the envelope's own.
POSITIONS: dict[str, str] = {
    **{f"source.{name}": "BIGINT" for name in ("lsn", "txId", "pos", "ts_ms", "ts_us", "ts_ns", "event_serial_no")},
    **{f"source.{name}": "STRING" for name in ("file", "gtid", "commit_lsn", "change_lsn")},
    "source.row": "INT",
    "ts_ms": "BIGINT",
    "ts_us": "BIGINT",
    "ts_ns": "BIGINT",
}

# Those of them that are moments, since 1970.
INSTANTS = {
    f"{block}{name}": unit
    for block in ("", "source.")
    for name, unit in (("ts_ms", "millis"), ("ts_us", "micros"), ("ts_ns", "nanos"))
}

# How the schema that a record may bring along names what a number means.
UNIT_BY_SCHEMA = {
    "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
    "org.apache.kafka.connect.data.Timestamp": "millis",
}


def may_be_unavailable(column: Column) -> bool:
    """Whether the placeholder can stand in its place: only large values of variable length are left out."""
    return column.word in ("STRING", "BINARY") or column.type.replace(" ", "").upper() == "ARRAY<STRING>"
