"""One way of doing a work, and what all who do it share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, Self

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from pyspark.sql import DataFrame, SparkSession

from include.settings import Settings
from spark_jobs.changes.records import BOUNDED
from spark_jobs.engine.session import configure, fit
from tests.bench.feeds import Feed
from tests.support.world import World


class Store(Protocol):
    """A lake on an S3-compatible store."""

    world: World

    def requests(self) -> dict[str, int]:
        """How many it was sent since it was asked last, by kind."""
        ...


@dataclass(frozen=True)
class Arena:
    """What all contenders of one work share."""

    spark: SparkSession
    world: World
    topic: str
    partitions: int
    folder: Path
    batch: int  # events
    rows: int  # of the table before
    feed: Feed
    on_s3: Store | None = None

    @property
    def settings(self) -> Settings:
        return self.world.settings

    @property
    def bootstrap_servers(self) -> str:
        return self.world.bootstrap_servers

    @property
    def first(self) -> Path:
        """A Delta table of the rows before the first change, as Delta's documentation advises one; for all to copy."""
        table, feed = self.folder / "first", self.feed
        if not table.exists():
            self.spark.sql(
                f"CREATE TABLE delta.`{table}` ({feed.schema}) USING delta CLUSTER BY ({feed.cluster_by}) "
                "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            )
            feed.first_rows(self.spark).write.format("delta").mode("append").save(str(table))
        return table

    def ends(self) -> dict[str, int]:
        """Where the topic's partitions end now."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "bench"})
        try:
            ends = (consumer.get_watermark_offsets(KafkaPartition(self.topic, p))[1] for p in range(self.partitions))
            return {str(p): end for p, end in enumerate(ends)}
        finally:
            consumer.close()


@dataclass
class Contender(ABC):
    """Does the same work as the others, with its own progress in the topic, by its own documented best practice."""

    name: ClassVar[str]
    merges: ClassVar[bool] = True  # into the table of first rows; else it appends all changes to an empty one
    is_tuned: ClassVar[bool] = False  # reads and runs with the settings that Lakemark uses, instead of the defaults
    arena: Arena
    facts: list[dict[str, float]] = field(default_factory=list, kw_only=True)  # of each batch, beside its time

    @classmethod
    def entering(cls, arena: Arena) -> Self:
        return cls(arena)

    @property
    def table(self) -> str:
        return str(self.arena.folder / self.name.replace(" ", "_"))

    @abstractmethod
    def lay(self) -> None:
        """Writes the table's first rows, if it is to have any."""

    @abstractmethod
    def run(self) -> float:
        """Handles what is new in the topic, at most a batch, and returns the seconds that count: for streaming queries
        those of the trigger (a long-running query starts once), for all others from the call to its end."""

    def warm_up(self) -> float:
        """Does the same for a round that is thrown away."""
        return self.run()

    def close(self) -> None:  # noqa: B027  # most have started nothing
        """Ends what it has started."""

    def rows(self) -> DataFrame:
        return self.arena.spark.read.format("delta").load(self.table)

    @property
    def tables(self) -> tuple[str, ...]:
        """The folders of all that it writes for readers."""
        return (self.table,)

    def bytes_there(self) -> int:
        """The bytes of all files in the folders of the tables, with what only older versions have."""
        files = (file for table in self.tables for file in Path(table).rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files)

    def digest(self) -> tuple[int, ...]:
        """A digest of what the tables show, as Spark reads them."""
        of_columns = f"bit_xor(xxhash64({', '.join(self.arena.feed.columns)}))"
        row = self.rows().selectExpr("count(*)", of_columns).first()
        assert row is not None
        return tuple(row)

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
