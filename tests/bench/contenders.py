"""Who takes part: each does the same work on a topic of its own progress, in its own documented best practice.

A contender's `run` handles what is new in the topic, at most a batch, and returns the seconds that count: for streaming
queries those of the trigger (a long-running query starts once), for all others from the call to its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from delta.tables import DeltaTable as SparkDeltaTable
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from include.installation.jars import jar_paths
from include.installation.java import find_java
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.planning import Idle
from include.runner import run_job
from include.settings import PROJECT_ROOT, Settings
from include.steps import Steps
from spark_jobs.attempt import Attempt
from spark_jobs.records import BOUNDED
from spark_jobs.session import configure, fit
from tests.bench import hudi
from tests.bench.feeds import Feed

HUDI_PYTHON = PROJECT_ROOT / ".lakemark" / "hudi" / "bin" / "python"  # `make bench` sets it up


@dataclass(frozen=True)
class Arena:
    """What all contenders of one work share."""

    spark: SparkSession
    settings: Settings
    bootstrap_servers: str
    topic: str
    partitions: int
    folder: Path
    batch: int  # events
    rows: int  # of the table before
    feed: Feed


@dataclass
class Contender(ABC):
    """One way of doing the work."""

    name: ClassVar[str]
    merges: ClassVar[bool] = True  # into the table of orders; else it appends all changes
    is_tuned: ClassVar[bool] = False  # reads and runs with the settings that Lakemark uses, instead of the defaults
    arena: Arena

    @property
    def table(self) -> str:
        return str(self.arena.folder / self.name.replace(" ", "_"))

    @abstractmethod
    def run(self) -> float: ...

    def session(self) -> SparkSession:
        """A session of its own."""
        spark = self.arena.spark.newSession()
        if self.is_tuned:
            configure(spark)
            fit(spark, self.arena.batch, self.arena.rows)
        return spark

    def kafka(self, more: Mapping[str, object]) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.arena.bootstrap_servers, "subscribe": self.arena.topic, **more}
        return {name: str(value) for name, value in options.items()} | (BOUNDED if self.is_tuned else {})

    def rows(self) -> DataFrame:
        return self.arena.spark.read.format("delta").load(self.table)

    def digest(self) -> tuple[int, int]:
        """Of what the table shows, as Spark reads it."""
        count, digest = (
            self.rows().selectExpr("count(*)", f"bit_xor(xxhash64({', '.join(self.arena.feed.columns)}))").first()
        )
        return count, digest


@dataclass
class Lakemark(Contender):
    """Plan, attempt and settle, in a session of its own as on the warm server."""

    name = "lakemark"
    sections: ClassVar[Mapping[str, object]] = {}  # of its pipeline file, beside those that all have
    pipeline: Pipeline

    @property
    def table(self) -> str:
        return Steps(self.arena.settings, self.pipeline).tables.target

    def rows(self) -> DataFrame:
        return super().rows().where("NOT coalesce(_lakemark.deleted, false)")

    def run(self) -> float:
        began = time.monotonic()
        for half in self.pipeline.halves:
            steps = Steps(self.arena.settings, half)
            planned = steps.plan()
            if not isinstance(planned, Idle):
                self.attempt(half, planned.batch.key)
                steps.settle(planned.batch.key)
        return time.monotonic() - began

    def attempt(self, pipeline: Pipeline, key: BatchKey) -> None:
        result = Attempt(self.arena.settings, pipeline, key, self.opened, "bench", lambda fact: None).run()
        assert result.outcome == "applied", result

    @contextmanager
    def opened(self) -> Iterator[SparkSession]:
        spark = self.arena.spark.newSession()
        configure(spark)
        yield spark


@dataclass
class LakemarkSubmitted(Lakemark):
    """The same batch by a spark-submit of its own: a JVM that starts for it."""

    name = "spark-submit per batch"

    def attempt(self, pipeline: Pipeline, key: BatchKey) -> None:
        run_job(self.arena.settings, pipeline.name, key, "bench", lambda fact: None, lambda line: None)


@dataclass
class LakemarkMergeEvery(Lakemark):
    """Every batch lands in the archive, ten of them are merged by one MERGE."""

    name = "lakemark, merge_every 10"
    sections: ClassVar[Mapping[str, object]] = {"archive": "lake://bronze/orders", "merge_every": 10}


@dataclass
class PlainParquet(Contender):
    """The practical floor: Spark reads the range, decodes it and writes Parquet files; no table, no keys."""

    name = "plain parquet"
    merges = False
    _next: dict[str, int] = field(default_factory=dict)

    def run(self) -> float:
        arena, began = self.arena, time.monotonic()
        ends = _ends(arena)
        starts = {p: self._next.get(p, 0) for p in ends}
        offsets = {"startingOffsets": starts, "endingOffsets": ends}
        options = {name: json.dumps({arena.topic: by}) for name, by in offsets.items()}
        records = self.session().read.format("kafka").options(**self.kafka(options)).load()
        arena.feed.decoded(records).write.mode("append").parquet(self.table)
        self._next = ends
        return time.monotonic() - began

    def rows(self) -> DataFrame:
        return self.arena.spark.read.parquet(self.table)


@dataclass
class TunedPlainParquet(PlainParquet):
    """The same with the settings that Lakemark uses."""

    name = "plain parquet, our settings"
    is_tuned = True


@dataclass
class _Streaming(Contender):
    """A structured streaming query, started for each round with its checkpoint."""

    def run(self) -> float:
        arena, spark = self.arena, self.session()
        options = self.kafka({"startingOffsets": "earliest"})  # what is new is one batch
        changes = arena.feed.decoded(spark.readStream.format("kafka").options(**options).load())
        query = self.started(changes).trigger(availableNow=True).start()
        query.awaitTermination()
        [done] = [progress for progress in query.recentProgress if progress["numInputRows"]]
        assert done["numInputRows"] == arena.batch, done
        return done["durationMs"]["triggerExecution"] / 1000

    @abstractmethod
    def started(self, changes: DataFrame): ...

    @property
    def checkpoint(self) -> str:
        return f"{self.table}.checkpoint"


@dataclass
class StreamingAppend(_Streaming):
    """Structured Streaming that appends to a Delta table: every change is a row, whoever reads has to reduce them."""

    name = "streaming append"
    merges = False

    def started(self, changes: DataFrame):
        return (
            changes.writeStream.format("delta").option("checkpointLocation", self.checkpoint).option("path", self.table)
        )


@dataclass
class TunedStreamingAppend(StreamingAppend):
    """The same with the settings that Lakemark uses."""

    name = "streaming append, our settings"
    is_tuned = True


@dataclass
class ForeachBatch(_Streaming):
    """Structured Streaming that merges each micro-batch, newest change per key, with Spark's and Delta's defaults."""

    name = "foreachBatch MERGE"

    def started(self, changes: DataFrame):
        return changes.writeStream.foreachBatch(self._merge).option("checkpointLocation", self.checkpoint)

    def _merge(self, changes: DataFrame, number: int) -> None:
        spark, feed = changes.sparkSession, self.arena.feed
        newest_first = Window.partitionBy(*feed.keys).orderBy(F.col(feed.order).desc())
        newest = changes.withColumn("place", F.row_number().over(newest_first)).where("place = 1").drop("place")
        target = SparkDeltaTable.forPath(spark, self.table).alias("t")
        merge = target.merge(newest.alias("s"), feed.same_key("t", "s"))
        merge.whenMatchedUpdateAll(feed.is_newer("s", "t")).whenNotMatchedInsertAll().execute()


@dataclass
class TunedForeachBatch(ForeachBatch):
    """The same with the settings that Lakemark uses."""

    name = "foreachBatch MERGE, our settings"
    is_tuned = True


@dataclass
class DeltaRs(Contender):
    """delta-rs: a Kafka client, Arrow, and deltalake's MERGE in this process; no JVM."""

    name = "delta-rs MERGE"
    _next: dict[str, int] = field(default_factory=dict)

    def run(self) -> float:
        arena, began = self.arena, time.monotonic()
        ends = _ends(arena)
        lines: list[bytes] = []
        consumer = Consumer(
            {"bootstrap.servers": arena.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
        )
        try:
            consumer.assign([KafkaPartition(arena.topic, int(p), self._next.get(p, 0)) for p in ends])
            wanted = sum(ends.values()) - sum(self._next.values())
            while len(lines) < wanted:
                lines += [m.value() for m in consumer.consume(min(10_000, wanted - len(lines)), timeout=10)]
        finally:
            consumer.close()
        self._next = ends
        self._merge(arena.feed.arrow(lines))
        return time.monotonic() - began

    def _merge(self, changes: pa.Table) -> None:
        feed = self.arena.feed
        ordered = changes.sort_by([*((key, "ascending") for key in feed.keys), (feed.order, "descending")])
        merge = DeltaTable(self.table).merge(
            ordered.filter(_differs_from_before(ordered.select(feed.keys))),
            feed.same_key("t", "s"),
            source_alias="s",
            target_alias="t",
        )
        merge.when_matched_update_all(feed.is_newer("s", "t")).when_not_matched_insert_all().execute()


@dataclass
class HudiUpsert(Contender):
    """Hudi's streaming upserts in a Spark 3.5 of its own, which is as warm as the others' (see `hudi.upserts`)."""

    name = "Hudi upsert"
    _process: subprocess.Popen[str] | None = None

    def lay(self, rows: DataFrame) -> None:
        """Writes the table's first rows."""
        folder = f"{self.table}.first"
        rows.write.parquet(folder)
        self._asked(f"first {folder}")

    def run(self) -> float:
        return self._asked("upsert")

    def digest(self) -> tuple[int, int]:
        count, digest = self._asked("digest")
        self.close()
        return count, digest

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()

    def _asked(self, command: str) -> Any:
        if self._process is None:
            self._process = self._started()
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"Hudi's process ended: {Path(f'{self.table}.log').read_text()[-4000:]}"
        return json.loads(answer)

    def _started(self) -> subprocess.Popen[str]:
        arena, settings = self.arena, self.arena.settings
        task = {
            "jars": [str(path) for path in jar_paths(settings.jars, "hudi")],
            "bootstrap_servers": arena.bootstrap_servers,
            "topic": arena.topic,
            "batch": arena.batch,
            "path": self.table,
            "schema": arena.feed.schema,
            "columns": arena.feed.columns,
            "keys": arena.feed.keys,
            "order": arena.feed.order,
        }
        command = [str(HUDI_PYTHON), str(Path(hudi.__file__).with_name("upserts.py")), json.dumps(task)]
        environment = {**os.environ, "JAVA_HOME": str(find_java(settings.java, settings.home / "java").home)}
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYTHONPATH"):  # of this Spark, not of that
            environment.pop(name, None)
        with Path(f"{self.table}.log").open("w") as log:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=environment)


def _differs_from_before(keys: pa.Table) -> pa.Array:
    columns = [column.combine_chunks() for column in keys.columns]
    differs = reduce(pc.or_, (pc.not_equal(column[1:], column[:-1]) for column in columns))
    return pa.concat_arrays([pa.array([True]), differs])


def _ends(arena: Arena) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": arena.bootstrap_servers, "group.id": "bench"})
    try:
        ends = (consumer.get_watermark_offsets(KafkaPartition(arena.topic, p))[1] for p in range(arena.partitions))
        return {str(p): end for p, end in enumerate(ends)}
    finally:
        consumer.close()
