"""What every format makes of records, and the names of the columns that stand for it while a batch is decoded.

Columns that no schema of a pipeline can have taken: `_lakemark` names are Lakemark's own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE

RECORD = f"{LINEAGE}_record"  # struct: Kafka's own fields
DECODED = f"{LINEAGE}_decoded"  # struct of the schema's columns
POSITION = f"{LINEAGE}_position"  # struct: what the change can be ordered by beside them, by the pipeline file's names
KIND = f"{LINEAGE}_kind"  # string: upsert, delete, truncate; none: no change of a row
ABSENT = (
    f"{LINEAGE}_absent"  # array<string>: columns that the record leaves out, and that keep what they were; null: none
)
PREVIOUS = f"{LINEAGE}_previous"  # struct of the key columns as they were before the change; null: not known
RESCUED_JSON = (
    f"{LINEAGE}_rescued"  # string: JSON of what the schema's columns do not hold; only of what can be rescued
)
PROBLEM = f"{LINEAGE}_problem"  # string: why the record cannot be decoded; null: it can

UNDECODABLE = "not decodable with the declared schema"
NO_VALUE = "null value"


def field(struct: str, name: str) -> Column:
    """A field of one of these structs; a name with a dot in it is one name."""
    return F.col(f"{struct}.`{name}`")


def no_position() -> Column:
    return F.struct(F.lit(None).cast("int").alias("none"))


def no_names() -> Column:
    return F.lit(None).cast("array<string>")


def of_plain_rows(
    decoded: DataFrame, problem: Column, absent: Column | None = None, rescued: Column | None = None
) -> DataFrame:
    """The contract's columns of records that are rows and nothing else.

    Args:
        decoded: with RECORD and DECODED. problem, absent, rescued: what those columns are to be.
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
