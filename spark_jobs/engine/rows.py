"""Rows: those that a query brings to the driver, those that it gives to Spark, and how rows are compared."""

from __future__ import annotations

from typing import TypeVar, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from include.lake.sql import spark_name

T = TypeVar("T", bound=DataType)


def first_row(frame: DataFrame) -> Row:
    """The first row of a query that has at least one, as every aggregate without groups does."""
    row = frame.first()
    assert row is not None, "the query has at least one row"
    return row


def comparable(schema: StructType, of: str = "") -> list[Column]:
    """All columns of a schema in a form that can be compared and digested: Spark does neither with maps.

    Args:
        of: what stands before each name: a struct that holds them, and a dot.
    """

    def form(name: str, type_: str) -> Column:
        value = F.col(f"{of}{spark_name(name)}")
        return F.to_json(F.struct(value)) if "map<" in type_ else value

    return [form(field.name, field.dataType.simpleString()) for field in schema.fields]


class TooManyBytesError(Exception):
    """Rows take more memory here than they may."""


def collected(frame: DataFrame, bytes_max: int | None = None) -> pa.Table:
    """All rows of a frame, in this process. Raises TooManyBytesError: they have more bytes than that; None: any.

    PySpark 4.2 refuses a struct that is null where its schema says that the struct's fields never are. Then the types
    have to say that anything may be null; to ask for them costs time, so nobody asks before.
    """
    try:
        rows = frame.toArrow()
    except pa.ArrowInvalid:
        columns = (F.col(spark_name(field.name)).cast(_nullable(field.dataType)) for field in frame.schema.fields)
        rows = frame.select(*columns).toArrow()
    if bytes_max is not None and rows.nbytes > bytes_max:
        raise TooManyBytesError(f"{rows.nbytes:,}, not {bytes_max:,}")
    return rows


def uploaded(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows of this process, given to Spark. Args: schema: theirs, as Spark has it; empty ones do not tell it."""
    return spark.createDataFrame(rows, _nullable(schema))


def _nullable(type_: T) -> T:
    found: DataType = type_
    match type_:
        case StructType():
            found = StructType([StructField(field.name, _nullable(field.dataType)) for field in type_.fields])
        case ArrayType():
            found = ArrayType(_nullable(type_.elementType))
        case MapType():
            found = MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return cast("T", found)
