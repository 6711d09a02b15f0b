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
from include.lake.sql import spark_name, spark_table


def views_at(spark: SparkSession, cut: Cut, prefix: str = "") -> list[str]:
    """Makes a view for every table that was there, and returns their names. They hide what a delete has hidden.

    Args:
        prefix: of the views' names, for cuts of several pipelines.

    Raises:
        TerminalError: see `Cut.tables`.
    """
    names = []
    for one in cut.named_tables(is_alone=True):
        name = f"{prefix}{one.names[0][1]}"
        rows = f"SELECT * FROM {spark_table(uri_of(one.table))} VERSION AS OF {one.table.version()}"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {spark_name(name)} AS {rows} WHERE {one.condition}")
        names.append(name)
    return names
