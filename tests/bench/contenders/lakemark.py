"""Lakemark itself: plan, attempt and settle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.control.coordinator import Coordinator
from include.jobs.runner import run_job
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import BatchKey
from include.protocol.planning import Idle
from include.settings import MergeEngine, Settings
from spark_jobs.attempt.attempt import Attempt
from spark_jobs.engine.session import configure
from spark_jobs.tables.creating import ensure
from tests.bench.contenders.contender import Arena, Contender


@dataclass
class Lakemark(Contender):
    """Every batch in a session of its own, as on the warm server."""

    name = "lakemark"
    sections: ClassVar[Mapping[str, object]] = {}  # of its pipeline file, beside those that all have
    of_target: ClassVar[Mapping[str, object]] = {}  # beside what all have in that section
    engine: ClassVar[MergeEngine] = "auto"
    pipeline: Pipeline

    @classmethod
    def entering(cls, arena: Arena) -> Self:
        name, feed = cls.name.replace(",", "").replace(" ", "_").replace("-", "_"), arena.feed
        pipeline = arena.world.pipeline(
            arena.topic,
            f"orders_{name}",
            source={**feed.source, "limits": {"records_per_batch_max": arena.batch}},
            change={"keys": list(feed.keys), "order_by": [feed.order]},
            target={"table": f"lake://orders/{name}", "cluster_by": [feed.cluster_by], **cls.of_target},
            **cls.sections,
        )
        return cls(arena, pipeline)

    @property
    def table(self) -> str:
        return str(Coordinator(self.arena.settings, self.pipeline).tables.target)

    def lay(self) -> None:
        """With lineage, of nobody."""
        spark = self.arena.spark
        ensure(spark, LakeUri(self.table), TableSpec.of_target(self.pipeline))
        lineage = spark.read.format("delta").load(self.table).schema["_lakemark"].dataType
        rows = self.arena.feed.first_rows(spark).withColumn("_lakemark", F.lit(None).cast(lineage))
        rows.write.format("delta").mode("append").save(self.table)

    def rows(self) -> DataFrame:
        return super().rows().where("NOT coalesce(_lakemark.deleted, false)")

    def run(self) -> float:
        return self._timed(self.attempt)

    def attempt(self, pipeline: Pipeline, key: BatchKey) -> None:
        settings = replace(self.arena.settings, merge_engine=self.engine)
        result = Attempt(settings, pipeline, key, self.opened, "bench", lambda fact: None).run()
        assert result.outcome == "applied", result

    @contextmanager
    def opened(self) -> Iterator[SparkSession]:
        spark = self.arena.spark.newSession()
        configure(spark)
        yield spark

    def _timed(self, attempt: Callable[[Pipeline, BatchKey], None]) -> float:
        began, attempts = time.monotonic(), 0.0
        for half in self.pipeline.halves:
            coordinator = Coordinator(self.arena.settings, half)
            planned = coordinator.plan()
            if not isinstance(planned, Idle):
                begun = time.monotonic()
                attempt(half, planned.batch.key)
                attempts += time.monotonic() - begun
                coordinator.settle(planned.batch.key)
        seconds = time.monotonic() - began
        self.facts.append({"plan and settle, ms": round(1000 * (seconds - attempts))})
        return seconds


@dataclass
class LakemarkOnS3(Lakemark):
    """The same in a lake on an S3-compatible store."""

    name = "lakemark on s3"

    @classmethod
    def entering(cls, arena: Arena) -> Self:
        assert arena.on_s3 is not None, "the run has no store"
        return super().entering(replace(arena, world=arena.on_s3.world))

    def run(self) -> float:
        store = self.arena.on_s3
        assert store is not None
        store.requests()
        seconds = super().run()
        self.facts.append({**self.facts.pop(), **store.requests()})
        return seconds

    def bytes_there(self) -> int:
        return 0  # not asked for


@dataclass
class LakemarkBySpark(Lakemark):
    """The same without the lane."""

    name = "lakemark by spark"
    engine: ClassVar[MergeEngine] = "spark"


@dataclass
class LakemarkOnS3BySpark(LakemarkOnS3):
    """The same in a lake on an S3-compatible store."""

    name = "lakemark on s3 by spark"
    engine: ClassVar[MergeEngine] = "spark"


@dataclass
class LakemarkSubmitted(Lakemark):
    """The same batch by a spark-submit of its own: a JVM that starts for it."""

    name = "spark-submit per batch"

    def run(self) -> float:
        return self._timed(self._submitted)

    def warm_up(self) -> float:
        """In the JVM of all: its own is never warm."""
        return super().run()

    def _submitted(self, pipeline: Pipeline, key: BatchKey) -> None:
        environment = self.arena.settings.child_environment(LAKEMARK_RUNNER="spark-submit")
        settings = Settings.from_environment(environment)
        run_job(settings, pipeline.name, key, "bench", lambda fact: None, lambda line: None)


@dataclass
class LakemarkMergeEvery(Lakemark):
    """Every batch lands in the archive, ten of them are merged by one MERGE."""

    name = "lakemark, merge_every 10"
    sections: ClassVar[Mapping[str, object]] = {"archive": "lake://bronze/orders", "merge_every": 10}
