"""Section `change`: which change of a row wins, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import Field

from include.pipeline_file.section import Section

KAFKA_TIMESTAMP = "kafka.timestamp"


class Change(Section):
    keys: tuple[str, ...] = Field(
        min_length=1,
        description="Columns that identify a row; or `generated`, for streams that are only appended to: every record "
        "is a row, by kafka_topic, kafka_partition and kafka_offset, which become columns.",
    )
    previous_keys: Mapping[str, str] = Field(
        default={},
        description="Where a change says which key its row had before: {KEY: COLUMN}. The row of the old key goes. (Of "
        "Debezium it is known.)",
    )
    order_by: tuple[str, ...] = Field(
        default=(),
        description="What orders the changes of a key, oldest first: columns, fields of structs (`meta.lsn`), "
        "kafka.timestamp, and positions of Debezium (`source.lsn`, `source.file`, `source.pos`, `source.row`, "
        "`source.ts_ms`, `ts_ms`); ties go by topic, partition and offset, which decide alone when this is empty.",
    )
    delete_when: str | None = Field(
        default=None, description="SQL condition on the columns; a change for which it is true deletes its key."
    )
    tombstones: Literal["quarantine", "ignore", "delete"] | None = Field(
        default=None,
        description="Of records without a value: delete their key's row, leave them out, or set them aside. Unless "
        "set, Debezium's are left out (the delete came before them), all others are set aside.",
    )
    truncates: Literal["fail", "ignore", "apply"] = Field(
        default="fail",
        description="Debezium's truncate events: nothing lands and a person decides; left out; or all older rows go.",
    )
    on_schema_change: Literal["add_columns", "rescue", "fail"] = Field(
        default="add_columns",
        description="When the file declares columns that the table lacks: add them, or fail. `rescue` adds them too, "
        "and keeps what a record holds beyond the declared columns, or of other types, in a column `_rescued` (JSON).",
    )
    absent: Literal["nulls", "keep"] | None = Field(
        default=None,
        description="What a column becomes that a change does not hold: null, or what it was (`keep`: a patch, where "
        "only null means null). Of Debezium these are values that the database did not send (TOAST); unless set, they "
        "are kept, and all others are nulls.",
    )
    history: Literal["scd1", "scd2"] = Field(
        default="scd1",
        description="scd1: one row per key, the newest change. scd2: one row per state of a key, with valid_from, "
        "valid_to and is_current.",
    )
    valid_from: str | None = Field(
        default=None,
        description="Since when a state holds (scd2): a column or position as in order_by, which orders as order_by "
        "does; null: the first of order_by.",
    )
    track_columns: tuple[str, ...] = Field(
        default=(),
        description="Columns that make a new state when they change (scd2); others are updated in place. None: all.",
    )

    @property
    def all_keys(self) -> frozenset[str]:
        """The columns of new and of old keys."""
        return frozenset((*self.keys, *self.previous_keys.values()))

    @property
    def placing_columns(self) -> frozenset[str]:
        """Columns that say which rows a change is of, and its place among the others (of a field, its struct)."""
        return self.all_keys | {name.split(".")[0] for name in self.placed_by}

    @property
    def placed_by(self) -> tuple[str, ...]:
        """All that a change has to have beside its keys: what orders it, and since when it holds."""
        return (*self.order_by, *([self.valid_from] if self.valid_from else []))


class OrderField(NamedTuple):
    """A part of the change order."""

    name: str  # as the pipeline file has it; also the field of `_lakemark.change_order`
    type: str  # Spark DDL
    of: Literal["column", "field", "kafka", "position"]  # field: of a struct, by its path
