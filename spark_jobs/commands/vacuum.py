"""VACUUM that spares files of earlier versions. Delta keeps by age, and cannot spare single versions."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession

from include.lake.log_store import LOG
from include.lake.stores import files_at
from include.lake.uri import LakeUri

_VIEW = "lakemark_inventory"


def inventory(spark: SparkSession, table: LakeUri, spared: Collection[str]) -> str:
    """A query of all files that VACUUM may look at, for `VACUUM ... USING INVENTORY`. Of a file that is not among them
    it knows nothing.

    Args:
        spared: the files to leave out, relative to the table.
    """
    root = table.text if "://" in table.text else f"file:{table.text}"  # as Hadoop writes it: another form matches none
    files = [file for file in files_at(table).list(table) if LOG not in file.name.split("/")]
    rows = [(f"{root}/{f.name}", f.size, False, int(f.modified_at * 1000)) for f in files if f.name not in spared]
    schema = "path STRING, length LONG, isDir BOOLEAN, modificationTime LONG"
    spark.createDataFrame(rows, schema).createOrReplaceTempView(_VIEW)
    return f"(SELECT path, length, isDir, modificationTime FROM {_VIEW})"
