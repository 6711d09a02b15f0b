"""What one writes in Spark by hand: a batch of Parquet, and Structured Streaming into Delta."""

from __future__ import annotations

import json
import shutil
import time
from abc import abstractmethod
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tests.bench.contenders.contender import Contender


@dataclass
class PlainParquet(Contender):
    """The practical floor: Spark reads the range, decodes it and writes Parquet files; no table, no keys."""

    name = "plain parquet"
    merges = False
    _next: dict[str, int] = field(default_factory=dict)

    def lay(self) -> None: ...

    def run(self) -> float:
        arena, began = self.arena, time.monotonic()
        ends = arena.ends()
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
        changes = self.read(spark.readStream.format("kafka").options(**options).load())
        query = self.started(changes).trigger(availableNow=True).start()
        query.awaitTermination()
        [done] = [progress for progress in query.recentProgress if progress["numInputRows"]]
        assert done["numInputRows"] == arena.batch, done
        return done["durationMs"]["triggerExecution"] / 1000

    def read(self, records: DataFrame) -> DataFrame:
        return self.arena.feed.decoded(records)

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

    def lay(self) -> None: ...

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

    def lay(self) -> None:
        shutil.copytree(self.arena.first, self.table)

    def started(self, changes: DataFrame):
        return changes.writeStream.foreachBatch(self._merge).option("checkpointLocation", self.checkpoint)

    def _merge(self, changes: DataFrame, number: int) -> None:
        spark, feed = changes.sparkSession, self.arena.feed
        newest_first = Window.partitionBy(*feed.keys).orderBy(F.col(feed.order).desc())
        newest = changes.withColumn("place", F.row_number().over(newest_first)).where("place = 1").drop("place")
        target = DeltaTable.forPath(spark, self.table).alias("t")
        merge = target.merge(newest.alias("s"), feed.same_key("t", "s"))
        merge.whenMatchedUpdateAll(feed.is_newer("s", "t")).whenNotMatchedInsertAll().execute()


@dataclass
class TunedForeachBatch(ForeachBatch):
    """The same with the settings that Lakemark uses."""

    name = "foreachBatch MERGE, our settings"
    is_tuned = True
