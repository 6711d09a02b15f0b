"""All tables of a pipeline at one cut, as temporary views of a Spark session of the user's own.

spark = SparkSession.getActiveSession()
cut = Cut.at(settings, pipeline, "savepoint:before-tax")
views_at(spark, cut)
spark.sql("SELECT count(*) FROM target")
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from include.checkpoints.reading import Cut
from include.lake.delta_tables import uri_of


def views_at(spark: SparkSession, cut: Cut, prefix: str = "") -> list[str]:
    """Makes a view for every table that was there, and returns their names. They hide what a delete has hidden.

    Args:
        prefix: of the views' names, for cuts of several pipelines.

    Raises:
        TerminalError: see `Cut.tables`.
    """
    names = []
    for one in cut.named_tables(is_alone=True):
        names.append(f"{prefix}{one.names[0][1]}")
        rows = spark.read.format("delta").option("versionAsOf", one.table.version()).load(str(uri_of(one.table)))
        rows.where(one.condition).createOrReplaceTempView(names[-1])
    return names
