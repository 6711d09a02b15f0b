"""Says what one table of a pipeline is: its kind, its columns, and how its rows are keyed and ordered. Pure.

A pipeline writes several tables: the target, the history beside it, and the tables of its routes. What writes a table
gets this instead of the whole pipeline file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from include.pipeline_file import OrderField, Pipeline
from include.pipeline_file.schema_change import SchemaChangePolicy
from include.pipeline_file.schema_ddl import Column

Kind = Literal["scd1", "scd2"]


@dataclass(frozen=True)
class AppendSpec:
    """One table that records are only added to. Its rows name the batch that brought them."""

    pipeline: str  # its name, for errors
    name: str  # for errors
    columns: tuple[Column, ...]
    keys: tuple[str, ...]  # the columns that tell its rows apart, or nearly so
    cluster_by: tuple[str, ...] = ()
    grows: bool = False  # it gets a column that rows bring and that it lacks
    place: str | None = None  # the struct that says a row's batch and place in its source; None: columns say it
    kind: Literal["append"] = "append"


@dataclass(frozen=True)
class TableSpec:
    """One table that changes are merged into.

    Args:
        kind: scd1: one row per key, with its newest change. scd2: one row per state of a key, with its period.
    """

    pipeline: str  # its name, for errors
    name: str  # as the pipeline file has it (lake://layer/table), for errors
    kind: Kind
    keys: tuple[str, ...]
    columns: tuple[Column, ...]  # those of the pipeline file; the kind adds its own
    order: tuple[OrderField, ...]  # what orders changes, before topic, partition and offset decide
    partial_columns: tuple[str, ...]  # those that a change may leave out, and that then keep their values
    cluster_by: tuple[str, ...]
    truncates: bool  # truncates are applied: a row without keys remembers the newest
    unites_rows: bool  # several rows for one key may come from one record, of which one stays
    valid_from: OrderField | None  # the start of a state (scd2)
    track_columns: tuple[str, ...]  # those that make a new state (scd2); empty: all
    on_schema_change: SchemaChangePolicy
    is_target: bool

    @property
    def anew(self) -> str:
        """How a person gets a table as the pipeline file declares it now, for errors."""
        if self.is_target:
            return (
                "fill a new table as the file declares it, which then takes this one's place: "
                f"`lakemark backfill {self.pipeline} --into-new-table`"
            )
        return (
            "fill a new one as the file declares it: if the target has the old form, too, first "
            f"`lakemark backfill {self.pipeline} --into-new-table`; then move the folder of this table away, and "
            f"`lakemark reset {self.pipeline} --from earliest --reason ...`"
        )

    @classmethod
    def of_target(cls, pipeline: Pipeline) -> Self:
        return cls._of(pipeline, pipeline.target.table, pipeline.change.history)

    @classmethod
    def of_history(cls, pipeline: Pipeline) -> Self:
        """The table of history beside the target. Only for a pipeline that has one."""
        assert pipeline.target.history_table is not None, "the pipeline file names it"
        return cls._of(pipeline, pipeline.target.history_table, "scd2")

    @classmethod
    def of_route(cls, pipeline: Pipeline, table: str) -> Self:
        """The table of a route, by its name: it is as the target."""
        return cls._of(pipeline, table, pipeline.change.history)

    @classmethod
    def _of(cls, pipeline: Pipeline, name: str, kind: Kind) -> Self:
        return cls(
            pipeline=pipeline.name,
            name=name,
            kind=kind,
            keys=pipeline.change.keys,
            columns=pipeline.columns,
            order=pipeline.order,
            partial_columns=pipeline.partial_columns,
            cluster_by=pipeline.target.cluster_by,
            truncates=pipeline.change.truncates == "apply",
            unites_rows=pipeline.transform is not None,
            valid_from=pipeline.valid_from if kind == "scd2" else None,
            track_columns=pipeline.change.track_columns if kind == "scd2" else (),
            on_schema_change=pipeline.change.on_schema_change,
            is_target=name == pipeline.target.table,
        )
