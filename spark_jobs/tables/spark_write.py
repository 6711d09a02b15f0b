"""A write by a statement of Spark, with the batch's marker in the same commit (I2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.engine.marking import marked, settings_of, succeeding, with_metadata


@dataclass(frozen=True)
class SparkWrite:
    """See `contract.Write`. Delta skips it, without an error, if the table has the marker or a higher one."""

    spark: SparkSession
    run: Callable[[], object]
    settings: Mapping[str, str] = field(default_factory=dict)  # of the session, while it runs

    def commit(self, metadata: CommitMetadata, marker: int | None, succeeds: str | None = None) -> None:
        """See `contract.Write`."""
        with ExitStack() as stack:
            if marker is None:
                stack.enter_context(with_metadata(self.spark, metadata.dumps()))
            else:
                stack.enter_context(marked(self.spark, metadata.batch.app_id, marker, metadata.dumps()))
            if succeeds is not None:
                stack.enter_context(succeeding(self.spark, succeeds))
            stack.enter_context(settings_of(self.spark, self.settings))
            self.run()
