"""A batch with all that a pipeline may ask for: its records in an archive, what a rule sets aside in a quarantine, a
target, and a history of every change beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tests.bench.contenders.by_hand import TunedForeachBatch
from tests.bench.contenders.contender import Arena, Contender
from tests.bench.contenders.lakemark import Lakemark

REFUSED = [f"customer {n}" for n in range(10)]  # a thousandth of all
_KINDS = ("archive", "quarantine", "history")


@dataclass
class LakemarkWithEverything(Lakemark):
    """By its pipeline file."""

    name = "lakemark, with everything"
    sections: ClassVar[Mapping[str, Any]] = {
        "archive": "lake://bronze/everything",
        "quality": {"suite": "everything"},
    }
    of_target: ClassVar[Mapping[str, Any]] = {"history_table": "lake://orders/everything_history"}

    @classmethod
    def entering(cls, arena: Arena) -> Self:
        kwargs = {"column": "customer", "value_set": REFUSED}
        arena.world.write_suite("everything", [{"type": "expect_column_values_to_not_be_in_set", "kwargs": kwargs}])
        return super().entering(arena)

    @property
    def tables(self) -> tuple[str, ...]:
        return self.table, *(str(self.arena.world.table(self.pipeline, kind)) for kind in _KINDS)

    def digest(self) -> tuple[int, ...]:
        return *super().digest(), *_of_the_others(self)


@dataclass
class ForeachBatchWithEverything(TunedForeachBatch):
    """One structured streaming query, and in it two appends, which Delta does not repeat, and two MERGEs. Its history
    takes changes in the order in which they come: a late one would break it."""

    name = "foreachBatch with everything, our settings"

    @property
    def tables(self) -> tuple[str, ...]:
        return self.table, *(f"{self.table}_{kind}" for kind in _KINDS)

    def lay(self) -> None:
        super().lay()
        feed = self.arena.feed
        self.arena.spark.sql(
            f"CREATE TABLE delta.`{self.tables[-1]}` ({feed.schema}, valid_from TIMESTAMP, valid_to TIMESTAMP, "
            f"is_current BOOLEAN) USING delta CLUSTER BY ({feed.cluster_by}) "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )

    def read(self, records: DataFrame) -> DataFrame:
        """What is in the records, and they themselves."""
        return self.arena.feed.decoded(records, F.struct("*").alias("record"))

    def _merge(self, changes: DataFrame, number: int) -> None:
        changes = changes.persist()
        is_refused = F.col("customer").isin(REFUSED)
        refused = changes.where(is_refused).select("record.*", F.lit("its customer").alias("reason"))
        good = changes.where(~is_refused).drop("record")
        _, archive, quarantine, history = self.tables
        for rows, table in ((changes.select("record.*"), archive), (refused, quarantine)):
            once = {"txnAppId": self.name, "txnVersion": str(number)}
            rows.write.format("delta").mode("append").options(**once).save(table)
        super()._merge(good, number)
        self._extend(DeltaTable.forPath(changes.sparkSession, history), good)
        changes.unpersist()

    def _extend(self, history: DeltaTable, changes: DataFrame) -> None:
        """Adds all changes as states, and ends the states that were current."""
        feed = self.arena.feed
        by_time = Window.partitionBy(*feed.keys).orderBy(feed.order)
        states = changes.select(
            "*",
            F.col(feed.order).alias("valid_from"),
            F.lead(feed.order).over(by_time).alias("valid_to"),
            (F.row_number().over(by_time) == 1).alias("is_first"),
        )
        added = states.withColumn("ends", F.lit(False))
        rows = added.unionByName(states.where("is_first").withColumn("ends", F.lit(True)))
        values = {name: f"s.{name}" for name in (*feed.columns, "valid_from", "valid_to")}
        merge = history.alias("t").merge(rows.alias("s"), f"s.ends AND t.is_current AND {feed.same_key('t', 's')}")
        merge = merge.whenMatchedUpdate(set={"is_current": "false", "valid_to": "s.valid_from"})
        merge.whenNotMatchedInsert("NOT s.ends", {**values, "is_current": "s.valid_to IS NULL"}).execute()

    def digest(self) -> tuple[int, ...]:
        return *super().digest(), *_of_the_others(self)


def _of_the_others(contender: Contender) -> tuple[int, ...]:
    """How many rows archive and quarantine have, and a digest of the history."""
    arena = contender.arena
    archive, quarantine, history = (arena.spark.read.format("delta").load(table) for table in contender.tables[1:])
    states = ", ".join([*arena.feed.columns, "valid_from", "valid_to", "is_current"])
    row = history.where("valid_from IS NOT NULL").selectExpr("count(*)", f"bit_xor(xxhash64({states}))").first()
    assert row is not None
    return archive.count(), quarantine.count(), *row
