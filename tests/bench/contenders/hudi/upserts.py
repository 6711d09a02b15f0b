"""Hudi's streaming upserts, in a Spark 3.5 of its own: Hudi has no bundle for the Spark of Lakemark.

Runs on the Python of that environment, so it imports nothing of this project. Its only argument says in JSON what to do
it with; then it takes a command a line from standard input, and answers each with a line of JSON:

    first FOLDER   writes the rows of Parquet files into a new table
    upsert         upserts what is new in the topic: seconds of the trigger
    digest         number of rows, and a digest of their columns

Settings are those of Hudi's documentation for Spark ("Spark Quick Start", "Streaming Writes"), all else is default.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_HUDI = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


def main() -> None:
    task, answers = json.loads(sys.argv[1]), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM has things to say on standard output, too
    builder = SparkSession.builder.appName("hudi").master("local[*]").config("spark.driver.memory", "3g")
    for key, value in {**_HUDI, "spark.jars": ",".join(task["jars"])}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    table = Table(spark, task)
    for line in sys.stdin:
        command, *arguments = line.split()
        print(json.dumps(getattr(table, command)(*arguments)), file=answers, flush=True)


class Table:
    """A Hudi table, and the topic that it follows."""

    def __init__(self, spark: SparkSession, task: dict[str, Any]) -> None:
        self.spark, self.task, self.path = spark, task, task["path"]
        self.options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": ",".join(task["keys"]),
            "hoodie.datasource.write.precombine.field": task["order"],
            "hoodie.datasource.write.partitionpath.field": "",
        }

    def first(self, folder: str) -> str:
        rows = self.spark.read.parquet(folder)
        options = {**self.options, "hoodie.datasource.write.operation": "bulk_insert"}
        rows.write.format("hudi").options(**options).mode("overwrite").save(self.path)
        return "written"

    def upsert(self) -> float:
        options = {"kafka.bootstrap.servers": self.task["bootstrap_servers"], "subscribe": self.task["topic"]}
        records = self.spark.readStream.format("kafka").options(**options, startingOffsets="earliest").load()
        writer = self._decoded(records).writeStream.format("hudi").outputMode("append")
        writer = writer.options(**self.options, **{"hoodie.datasource.write.operation": "upsert"})
        writer = writer.option("checkpointLocation", f"{self.path}.checkpoint").trigger(availableNow=True)
        query = writer.start(self.path)
        query.awaitTermination()
        [done] = [progress for progress in query.recentProgress if progress["numInputRows"]]
        assert done["numInputRows"] == self.task["batch"], done
        return done["durationMs"]["triggerExecution"] / 1000

    def digest(self) -> tuple[int, int]:
        rows = self.spark.read.format("hudi").load(self.path)
        return tuple(rows.selectExpr("count(*)", f"bit_xor(xxhash64({', '.join(self.task['columns'])}))").first())

    def _decoded(self, records: DataFrame) -> DataFrame:
        value = F.from_json(F.col("value").cast("string"), self.task["schema"])
        return records.select(value.alias("v")).select("v.*")


if __name__ == "__main__":
    main()
