"""The contract of writers: what the module of every kind of table has. A table's kind is its spec's `kind`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from include.lake.log_store import Create
from include.lake.merge.order import Value
from include.lake.uri import LakeUri
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import AppendSpec, TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata

CHANGES = "lakemark_changes"  # the view that a MERGE reads
Spec = AppendSpec | TableSpec


class Write(Protocol):
    """A write that makes one commit: by Spark (`spark_write`), or without it (`lane`)."""

    def commit(
        self, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None, create: Create | None = None
    ) -> None:
        """Writes and commits.

        Args:
            marker: under the batch's appId. Nothing lands if the table has it or a higher one. None: the table has it
                already, and it stays.
            succeeds: what the write was decided on (`TableLog.succession`): it lands right after that, or fails. None:
                wherever there is no conflict.
            create: makes the commit, together with what shall land with it; None: the table's log does, alone.
        """


class Writer(Protocol):
    """Writes tables of a kind: `append`, or `merging` for both kinds of changes."""

    def ensure(self, spark: SparkSession, uri: LakeUri, spec: Spec) -> None:
        """Creates the table if there is none, and adds columns that it lacks.

        Raises:
            SchemaChanged: it has other columns than the pipeline file declares, and a person has to decide.
        """

    def landing(
        self, spark: SparkSession, uri: LakeUri, rows: DataFrame, spec: Spec, batch: Batch, prunes: bool
    ) -> Write:
        """Adds a batch to the table as it is. A chunk's rows may be there already, as an earlier attempt made them:
        what differs is written again.

        Args:
            rows: what the batch brings, kept for the attempt. prunes: the table is large, so it pays to look where the
                keys can be.
        """

    def replacing(
        self,
        spark: SparkSession,
        uri: LakeUri,
        rows: DataFrame,
        spec: Spec,
        base: int | None,
        live: Sequence[Batch],
    ) -> Write:
        """Makes the table what it was at a version, plus a batch. It is written over the newest version.

        Args:
            rows: as for `landing`. base: the version; None: there was no table. live: the live batches whose rows may
                differ between that version and now, the one that is about to land among them.
        """


@dataclass(frozen=True)
class Merge:
    """A MERGE, and what it needs."""

    source: DataFrame  # for the view CHANGES
    statement: str
    settings: Mapping[str, str] = field(default_factory=dict)  # of the session, while it runs


class Kind(Protocol):
    """The module of a kind of changes: `scd1` or `scd2`."""

    def columns(self, spec: TableSpec, there: Mapping[str, str] | None = None) -> tuple[Column, ...]:
        """The table's columns.

        Args:
            there: the types of the columns that the table has already; None: there is no table yet.
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

    def patched(
        self, table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str, again: Batch | None
    ) -> DataFrame:
        """The rows that the MERGE of these changes would write.

        Args:
            table: the table's rows of the changes' keys. With truncates also the row without keys.

        Columns: the table's (a column that is missing keeps its values) and `patch.GONE`, whether the row is deleted.
        """

    def identity(self, spec: TableSpec, lineage: str) -> tuple[Value, ...]:
        """The columns and fields by which that MERGE finds the row that a written one takes the place of.

        Args:
            lineage: the type of the table's lineage.
        """

    def applied(self, table: DataFrame, changes: DataFrame, spec: TableSpec, lineage: str) -> DataFrame:
        """The table as that MERGE would make it, as a frame with the table's columns.

        Args:
            table: a version of the table.
        """
