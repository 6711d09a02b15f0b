"""What one writes by hand: reads what is new in a topic by a checkpoint, and merges it into a Delta table.

    spark-submit by_hand_job.py SERVERS TOPIC TABLE

With Spark's and Delta's defaults, as their documentation shows it.
"""

from __future__ import annotations

import sys

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

SCHEMA = "id BIGINT, seq BIGINT, name STRING, op STRING"


def main(servers: str, topic: str, table: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    DeltaTable.createIfNotExists(spark).location(table).addColumns(spark.createDataFrame([], SCHEMA).schema).execute()
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options).load()
    changes = records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")

    def merge(batch: DataFrame, number: int) -> None:
        newest_first = Window.partitionBy("id").orderBy(F.col("seq").desc())
        newest = batch.withColumn("place", F.row_number().over(newest_first)).where("place = 1").drop("place")
        target = DeltaTable.forPath(batch.sparkSession, table).alias("t")
        (
            target.merge(newest.alias("s"), "t.id = s.id")
            .whenMatchedUpdateAll("s.seq > t.seq")
            .whenNotMatchedInsertAll()
            .execute()
        )

    query = changes.writeStream.foreachBatch(merge).option("checkpointLocation", f"{table}.checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
