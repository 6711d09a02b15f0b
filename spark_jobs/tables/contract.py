"""The contract of kinds: what the module of every kind of table has. A table's kind is its `TableSpec.kind`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from include.lake.uri import LakeUri
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch

CHANGES = "lakemark_changes"  # the view that a MERGE reads


@dataclass(frozen=True)
class Merge:
    """A MERGE, and what it needs."""

    source: DataFrame  # for the view CHANGES
    statement: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of the session, while it runs


class Writer(Protocol):
    """The module of a kind."""

    def columns(self, spec: TableSpec, there: Collection[str] | None = None) -> tuple[Column, ...]:
        """The table's columns.

        Args:
            there: the columns that the table has already; None: there is no table yet.
        """

    def folded(self, rows: DataFrame, spec: TableSpec) -> DataFrame:
        """A batch's rows, as the kind's MERGE needs them, and all others (I8).

        Args:
            rows: as `dispositions` returns them.
        """

    def merge(
        self,
        spark: SparkSession,
        uri: LakeUri,
        changes: DataFrame,
        spec: TableSpec,
        lineage: str,
        again: Batch | None,
        within: str | None,
    ) -> Merge:
        """The MERGE that applies prepared changes to the table.

        Args:
            lineage: the type of the table's lineage. again: the batch, if some of its changes may be there already.
            within: a condition on `target` that every match fulfils; None: no condition.
        """
