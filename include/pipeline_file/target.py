"""Sections `target`, `maintenance` and `checkpoints`: the table, how it is maintained, and what it can go back to."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.apart import ROUTES_MAX
from include.pipeline_file.schedule import is_cron
from include.pipeline_file.section import HOURS_MAX, TABLE, Condition, Section, refuse_climbing

_RETAIN_HOURS_MAX = 24 * 14


class Route(Section):
    """Changes that go to another table than the target. The first route that matches a change takes it.

    A delete that holds only a key goes to all tables. The changes of a key should always take the same route: a row
    that has gone to one table stays there when later changes go to another.
    """

    table: str = Field(pattern=TABLE, description="lake://layer/table, with the same columns as the target.")
    when: Condition | None = Field(default=None, description="SQL condition on the columns.")
    topics: tuple[str, ...] = Field(default=(), description="Or: all changes from these topics.")

    _inside = field_validator("table")(refuse_climbing)


class Target(Section):
    table: str = Field(pattern=TABLE, description="lake://layer/table")
    history_table: str | None = Field(
        default=None,
        pattern=TABLE,
        description="lake://layer/table, which gets the same changes as history (scd2), beside a target with scd1.",
    )
    routes: tuple[Route, ...] = Field(
        default=(),
        max_length=ROUTES_MAX,
        description="Other tables for some of the changes; the target gets all that no route takes.",
    )
    cluster_by: tuple[str, ...] = Field(
        default=(), max_length=4, description="Columns of liquid clustering (Delta allows at most 4)."
    )

    _inside = field_validator("table", "history_table")(refuse_climbing)


class Upkeep(Section):
    """What maintenance does, and when. It runs by itself every night (docs/airflow.md)."""

    small_files_max: int = Field(
        default=20, ge=1, description="Files are rewritten into larger ones when more than this number are below 32 MB."
    )
    vacuum_after_hours: float = Field(
        default=168.0,
        ge=168,
        le=HOURS_MAX,
        description="Files that no version younger than this many hours needs are removed.",
    )
    purge_tombstones_after_days: float | None = Field(
        default=None,
        gt=0,
        le=HOURS_MAX,
        description="Tombstones of deletes that were committed more than this many days ago are removed; null: none "
        "are. If an older change of such a key comes later, its row comes back.",
    )
    keep_judgements_days: float | None = Field(
        default=365,
        gt=0,
        le=HOURS_MAX,
        description="Results of suites that are older than this many days are removed; null: none are.",
    )


class Checkpoints(Section):
    """Which checkpoints maintenance keeps whole (docs/checkpoints.md). Others stay so for as long as VACUUM leaves old
    files there."""

    retain: int | None = Field(
        default=None, ge=1, le=1000, description="So many of the newest; null: see retain_hours."
    )
    retain_hours: float | None = Field(
        default=None,
        gt=0,
        le=_RETAIN_HOURS_MAX,
        description="Those of so many hours, and the state at their beginning; null: see retain.",
    )

    rehearse: str | None = Field(
        default=None, description="Cron: when the newest savepoint is restored for a while and audited; null: by hand."
    )

    @field_validator("rehearse")
    @classmethod
    def _is_cron(cls, text: str | None) -> str | None:
        if text is not None and not is_cron(text):
            raise PydanticCustomError("cron", "a cron expression like `0 6 * * *`, or null")
        return text

    @model_validator(mode="after")
    def _one_rule(self) -> Checkpoints:
        if self.retain is not None and self.retain_hours is not None:
            raise PydanticCustomError("checkpoints", "either `retain` or `retain_hours`")
        return self
