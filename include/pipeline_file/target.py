"""Sections `target` and `maintenance`: the table, and how it is kept in shape."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from include.pipeline_file.schedule import TABLE
from include.pipeline_file.section import Section, refuse_climbing, refused


class Route(Section):
    """Changes that go to another table than the target; the first route that takes a change has it.

    A delete that holds a key and nothing else goes to all tables. A key's changes should always take the same route:
    a row that has gone to one table stays there when later changes go to another.
    """

    table: str = Field(pattern=TABLE, description="lake://layer/table, of the same columns as the target.")
    when: str | None = Field(default=None, description="SQL condition on the columns.")
    topics: tuple[str, ...] = Field(default=(), description="Or: what comes from one of these topics.")

    _inside = field_validator("table")(refuse_climbing)

    @model_validator(mode="after")
    def _takes_something(self) -> Route:
        if (self.when is None) == (not self.topics):
            raise refused("target.routes", "`when` or `topics`, for every route", "both" if self.topics else "neither")
        return self


class Target(Section):
    table: str = Field(pattern=TABLE, description="lake://layer/table")
    history_table: str | None = Field(
        default=None,
        pattern=TABLE,
        description="lake://layer/table, which gets the same changes as history (scd2) beside a target of scd1.",
    )
    routes: tuple[Route, ...] = Field(
        default=(), description="Other tables, for some of the changes; the target has all that no route takes."
    )
    cluster_by: tuple[str, ...] = Field(
        default=(), max_length=4, description="Columns of liquid clustering (Delta allows at most 4)."
    )

    _inside = field_validator("table", "history_table")(refuse_climbing)


class Upkeep(Section):
    """When maintenance does what. It runs by itself every night (docs/airflow.md)."""

    small_files_max: int = Field(
        default=20, ge=1, description="Files are rewritten into larger ones when more than so many are below 32 MB."
    )
    vacuum_after_hours: float = Field(
        default=168.0, ge=168, description="Files that no version newer than this needs are removed."
    )
    purge_tombstones_after_days: float | None = Field(
        default=None,
        gt=0,
        description="Tombstones of deletes that were committed so long ago are removed; null: none is. An older change "
        "of such a key that comes later makes its row again.",
    )
    keep_judgements_days: float | None = Field(
        default=365, gt=0, description="What suites said so long ago is removed; null: it is kept for ever."
    )
