"""What Debezium's envelope holds, as far as a pipeline file names it.

Source: Debezium's documentation of its connectors for PostgreSQL, MySQL, SQL Server and Oracle, "Data change events".
"""

from __future__ import annotations

from include.pipeline_file.schema_ddl import Column, nested, split, word_of

UNAVAILABLE = "__debezium_unavailable_value"  # stands for a large value that the database did not send (TOAST)

# Positions that can order changes: `source.NAME` in the source block, and those of the envelope. `source.gtid` is not
# one of them: it is a text, in which transaction 10 comes before 9.
POSITIONS: dict[str, str] = {
    **{f"source.{name}": "BIGINT" for name in ("lsn", "txId", "pos", "ts_ms", "ts_us", "ts_ns", "event_serial_no")},
    **{f"source.{name}": "STRING" for name in ("file", "commit_lsn", "change_lsn")},
    "source.row": "INT",
    "ts_ms": "BIGINT",
    "ts_us": "BIGINT",
    "ts_ns": "BIGINT",
}

# The positions that are times, since 1970.
INSTANTS = {
    f"{block}{name}": unit
    for block in ("", "source.")
    for name, unit in (("ts_ms", "millis"), ("ts_us", "micros"), ("ts_ns", "nanos"))
}

# The unit of a number, by the name of the schema that a record may carry.
UNIT_BY_SCHEMA = {
    "io.debezium.time.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
    "org.apache.kafka.connect.data.Timestamp": "millis",
}

DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
OF_TIME = ("io.debezium.time.", "org.apache.kafka.connect.data.")  # prefixes of the names of time schemas
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def is_date(connect_name: str | None) -> bool:
    """Whether a number with that schema is a date, in days since 1970."""
    return connect_name in DATES


def counts_other(connect_name: str | None, logical_type: str | None) -> bool:
    """Whether a schema says that a number is a date, a time of day, a year or a duration: anything but a timestamp."""
    is_of_time = (connect_name or "").startswith(OF_TIME)
    is_moment = connect_name in UNIT_BY_SCHEMA
    return (is_of_time and not is_moment) or (logical_type or "").startswith("time-")


def may_be_unavailable(column: Column) -> bool:
    """Whether the placeholder can stand for this column. Only large values of variable length are left out."""
    match nested(column.type):
        case None:
            return column.word in ("STRING", "BINARY")
        case ("ARRAY", inner):
            return word_of(inner) in ("STRING", "BINARY", "DATE", "INT", "INTEGER", "LONG", "BIGINT")
        case ("MAP", inner):
            return [word_of(part) for part in split(inner)] == ["STRING", "STRING"]
        case _:
            return False
