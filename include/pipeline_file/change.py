"""Section `change`: which change of a row wins, and what happens to the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import Field

from include.pipeline_file.section import Condition, Section

KAFKA_TIMESTAMP = "kafka.timestamp"
_NAMES_MAX = 50


class Change(Section):
    keys: tuple[str, ...] = Field(
        min_length=1,
        max_length=_NAMES_MAX,
        description="Columns that identify a row; or `generated`, for streams that are only appended to: every record "
        "is a row, and kafka_topic, kafka_partition and kafka_offset become columns and identify it.",
    )
    previous_keys: Mapping[str, str] = Field(
        default={},
        max_length=_NAMES_MAX,
        description="Columns in which a change names the key that its row had before: {KEY: COLUMN}. The row of the "
        "old key is removed. (Not needed with Debezium: its records hold the old key.)",
    )
    order_by: tuple[str, ...] = Field(
        default=(),
        max_length=_NAMES_MAX,
        description="What orders the changes of a key, oldest first: columns, fields of structs (`meta.lsn`), "
        "kafka.timestamp, and positions of Debezium (`source.lsn`, `source.file`, `source.pos`, `source.row`, "
        "`source.ts_ms`, `ts_ms`). Topic, partition and offset decide ties, and decide alone when this is empty.",
    )
    delete_when: Condition | None = Field(
        default=None, description="SQL condition on the columns; a change for which it is true deletes its row."
    )
    tombstones: Literal["quarantine", "ignore", "delete"] | None = Field(
        default=None,
        description="What happens to records without a value: delete the row of their key, leave them out (`ignore`), "
        "or quarantine them. Unless set, those of Debezium are left out (their delete came before), and all others are "
        "quarantined.",
    )
    truncates: Literal["fail", "ignore", "apply"] = Field(
        default="fail",
        description="Debezium's truncate events: `fail`: nothing lands, and a person decides; `ignore`: they are left "
        "out; `apply`: all older rows are deleted.",
    )
    on_schema_change: Literal["add_columns", "rescue", "fail"] = Field(
        default="add_columns",
        description="When the file declares columns that the table lacks: add them, or fail. `rescue` adds them too, "
        "and keeps values of other columns or other types in a column `_rescued` (JSON).",
    )
    absent: Literal["nulls", "keep"] | None = Field(
        default=None,
        description="What happens to a column that a change does not hold: it becomes null (`nulls`), or stays as it "
        "was (`keep`: the change is a patch, where only null means null). With Debezium these are values that the "
        "database did not send (TOAST). Unless set, those are kept, and all others become nulls.",
    )
    history: Literal["scd1", "scd2"] = Field(
        default="scd1",
        description="scd1: one row per key, with the newest change. scd2: one row per state of a key, with valid_from, "
        "valid_to and is_current.",
    )
    valid_from: str | None = Field(
        default=None,
        description="The start of a state (scd2): a column or position as in order_by, in the same order as order_by; "
        "null: the first of order_by.",
    )
    track_columns: tuple[str, ...] = Field(
        default=(),
        max_length=1_000,
        description="Columns that make a new state when they change (scd2); others are updated in place. Empty: all.",
    )

    @property
    def all_keys(self) -> frozenset[str]:
        """The columns of new and old keys."""
        return frozenset((*self.keys, *self.previous_keys.values()))

    @property
    def placing_columns(self) -> frozenset[str]:
        """The columns that say which row a change belongs to, and its place in the order (for a field, its struct)."""
        return self.all_keys | {name.split(".")[0] for name in self.placed_by}

    @property
    def placed_by(self) -> tuple[str, ...]:
        """What a change must have beside its keys: what orders it, and its start."""
        return (*self.order_by, *([self.valid_from] if self.valid_from else []))


class OrderField(NamedTuple):
    """A part of the change order."""

    name: str  # as the pipeline file has it; also the field of `_lakemark.change_order`
    type: str  # Spark DDL
    of: Literal["column", "field", "kafka", "position"]  # field: in a struct, by its path
