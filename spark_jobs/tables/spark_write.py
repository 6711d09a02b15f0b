"""A write by a statement of Spark, with the batch's marker in the same commit (I2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from include.lake.log_store import LOG, Create
from include.lake.merge.landing import OvertakenError
from include.lake.stores import files_at, log_store_of
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import TerminalError
from spark_jobs.engine.failures import staged_commit
from spark_jobs.engine.marking import marked, settings_of, staged, succeeding, with_metadata


@dataclass(frozen=True)
class SparkWrite:
    """See `contract.Write`. Delta skips it, without an error, if the table has the marker or a higher one."""

    spark: SparkSession
    uri: LakeUri
    run: Callable[[], object]
    settings: Mapping[str, str] = field(default_factory=dict)  # of the session, while it runs

    def commit(
        self, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None, create: Create | None = None
    ) -> None:
        """See `contract.Write`."""
        with ExitStack() as stack:
            if marker is None:
                stack.enter_context(with_metadata(self.spark, metadata.dumps()))
            else:
                stack.enter_context(marked(self.spark, metadata.batch.app_id, marker, metadata.dumps()))
            if succeeds is not None:
                stack.enter_context(succeeding(self.spark, succeeds))
            stack.enter_context(settings_of(self.spark, self.settings))
            if create is None:
                self.run()
            else:
                stack.enter_context(staged(self.spark))
                self._run_and_make(create, metadata)

    def _run_and_make(self, create: Create, metadata: CommitMetadata) -> None:
        """Runs the statement, whose commit Delta only writes beside the log, and makes that commit.

        Raises:
            OvertakenError: another writer was faster; nothing has landed. TerminalError: Spark has made the commit.
        """
        try:
            self.run()
        except Exception as error:
            if (found := staged_commit(error)) is None:
                raise
            version, name = found
        else:  # it had nothing to commit
            self._verify_not_made(metadata)
            return
        file = self.uri / LOG / name
        stamp = log_store_of(self.uri).stamp(version - 1)
        try:
            with files_at(self.uri).open(file) as content:
                made = create(version, content.read(), stamp)
        finally:
            files_at(self.uri).remove(file)
        if not made:
            raise OvertakenError(f"version {version} is another writer's")

    def _verify_not_made(self, metadata: CommitMetadata) -> None:
        """Checks that Spark has not made the commit by itself: one with older classes of Lakemark would do so."""
        log = TableLog.open(self.uri)
        landed = None if log is None else log.landed(metadata.batch)
        if landed is not None and landed.metadata.attempt_id == metadata.attempt_id:
            raise TerminalError(
                what="Spark has made a commit that was to be made together with sinks",
                where=str(self.uri),
                expected=f"a Spark server with the JAR of {metadata.code_version}",
                found="one that does not know `spark.lakemark.commit.staged`",
                action="install this version's JAR there and start it again (docs/operations.md); the batch has "
                f"landed, and `lakemark sinks deliver {metadata.batch.pipeline}` brings it to the sinks",
            )
