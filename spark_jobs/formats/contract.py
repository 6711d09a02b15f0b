"""The contract of formats: which columns every format makes from records.

No schema of a pipeline can have columns of these names: names that begin with `_lakemark` are Lakemark's own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE

RECORD = f"{LINEAGE}_record"  # struct: Kafka's own fields
DECODED = f"{LINEAGE}_decoded"  # struct of the schema's columns
POSITION = f"{LINEAGE}_position"  # struct: what else can order the change, by the names in the pipeline file
KIND = f"{LINEAGE}_kind"  # string: upsert, delete, truncate, or none (no change of a row)
ABSENT = f"{LINEAGE}_absent"  # array<string>: columns that the record leaves out: they keep their value; null: none
PREVIOUS = f"{LINEAGE}_previous"  # struct of the key columns as they were before the change; null: not known
RESCUED_JSON = (
    f"{LINEAGE}_rescued"  # string: JSON of what the schema's columns do not hold; only if the pipeline rescues
)
PROBLEM = f"{LINEAGE}_problem"  # string: why the record cannot be decoded; null: it can

UNDECODABLE = "not decodable with the declared schema"
NO_VALUE = "null value"


def field(struct: str, name: str) -> Column:
    """A field of one of these structs. A name with a dot in it is one name."""
    return F.col(f"{struct}.{spark_name(name)}")


def no_position() -> Column:
    return F.struct(F.lit(None).cast("int").alias("none"))


def no_names() -> Column:
    return F.lit(None).cast("array<string>")


def of_plain_rows(
    decoded: DataFrame, problem: Column, absent: Column | None = None, rescued: Column | None = None
) -> DataFrame:
    """The contract's columns for records that are rows and nothing else.

    Args:
        decoded: with RECORD and DECODED. problem, absent, rescued: the values of the columns with these names.
    """
    return decoded.select(
        RECORD,
        DECODED,
        no_position().alias(POSITION),
        F.lit("upsert").alias(KIND),
        (no_names() if absent is None else absent).alias(ABSENT),
        F.lit(None).alias(PREVIOUS),
        *([] if rescued is None else [rescued.alias(RESCUED_JSON)]),
        problem.alias(PROBLEM),
    )
