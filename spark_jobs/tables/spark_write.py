"""A write by a statement of Spark, with the batch's marker in the same commit (I2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from include.lake.log_store import LOG, Create
from include.lake.merge.landing import OvertakenError
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.commit_metadata import CommitMetadata
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
                self._run_and_make(create)

    def _run_and_make(self, create: Create) -> None:
        """Runs the statement, whose commit Delta only writes beside the log, and makes that commit.

        Raises:
            OvertakenError: another writer was faster; nothing has landed.
        """
        try:
            self.run()
        except Exception as error:
            if (found := staged_commit(error)) is None:
                raise
            version, name = found
        else:
            return  # it had nothing to commit
        file = self.uri / LOG / name
        stamp = log_store_of(self.uri).stamp(version - 1)
        try:
            with files_at(self.uri).open(file) as content:
                made = create(version, content.read(), stamp)
        finally:
            files_at(self.uri).remove(file)
        if not made:
            raise OvertakenError(f"version {version} is another writer's")
