"""Which types of a database keep every value of a type of the lake, or refuse it: none may cut or round in silence."""

from __future__ import annotations

import pytest

from include.pipeline_file.kept_values import TypeAtSink
from include.pipeline_file.sink_types import usual_type

TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(30, 0)"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a: INT>"),
)


@pytest.mark.parametrize("system", ["postgresql", "mysql"])
@pytest.mark.parametrize("type_", TYPES)
def test_the_usual_types_keep_every_value(system: str, type_: str) -> None:
    for is_key in (False, True):
        assert TypeAtSink.read(system, usual_type(system, type_, is_key)).keeps(type_)


KEPT = [
    ("postgresql", "DECIMAL(38, 18)", "numeric"),
    ("postgresql", "DECIMAL(38, 18)", "NUMERIC(38,18)"),
    ("postgresql", "DECIMAL(38, 18)", "text"),
    ("postgresql", "DECIMAL(10, 0)", "bigint"),
    ("postgresql", "BIGINT", "int4"),  # a number that is too large is refused
    ("postgresql", "INT", "double precision"),
    ("postgresql", "TIMESTAMP", "timestamptz"),
    ("postgresql", "TIMESTAMP", "timestamp(6) with time zone"),
    ("postgresql", "STRING", "varchar(3)"),  # a text that is too long is refused
    ("postgresql", "STRING", "uuid"),
    ("postgresql", "STRING", "shop.status"),  # an enum of the server's own
    ("postgresql", "ARRAY<INT>", "json"),
    ("mysql", "DECIMAL(38, 18)", "decimal(38,18)"),
    ("mysql", "BIGINT", "bigint(20) unsigned"),
    ("mysql", "BOOLEAN", "tinyint(1)"),
    ("mysql", "TIMESTAMP", "timestamp(6)"),
    ("mysql", "DOUBLE", "varchar(100)"),
    ("mysql", "BINARY", "varbinary(16)"),
]
CHANGED = [
    ("postgresql", "DECIMAL(38, 18)", "numeric(20, 2)"),
    ("postgresql", "DECIMAL(38, 18)", "double precision"),
    ("postgresql", "DECIMAL(38, 18)", "money"),
    ("postgresql", "BIGINT", "double precision"),
    ("postgresql", "DOUBLE", "real"),
    ("postgresql", "DOUBLE", "float(24)"),
    ("postgresql", "TIMESTAMP", "date"),
    ("postgresql", "TIMESTAMP", "timestamp(3) with time zone"),
    ("postgresql", "TIMESTAMP_NTZ", "timestamptz"),
    ("postgresql", "DATE", "timestamptz"),
    ("postgresql", "STRING", "char(10)"),
    ("postgresql", "STRING", "name"),
    ("postgresql", "STRING", "bigint"),
    ("postgresql", "BINARY", "text"),
    ("mysql", "DECIMAL(38, 18)", "decimal"),
    ("mysql", "DECIMAL(38, 18)", "decimal(20, 2)"),
    ("mysql", "DOUBLE", "float"),
    ("mysql", "DOUBLE", "double(10, 2)"),
    ("mysql", "TIMESTAMP", "datetime"),
    ("mysql", "TIMESTAMP", "datetime(3)"),
    ("mysql", "TIMESTAMP_NTZ", "timestamp(6)"),
    ("mysql", "STRING", "char(10)"),
    ("mysql", "STRING", "enum('a','b')"),
    ("mysql", "BINARY", "binary(16)"),
]


@pytest.mark.parametrize(
    ("system", "type_", "at_sink", "keeps"),
    [*((*case, True) for case in KEPT), *((*case, False) for case in CHANGED)],
)
def test_a_type_keeps_every_value_or_not(system: str, type_: str, at_sink: str, keeps: bool) -> None:
    assert TypeAtSink.read(system, at_sink).keeps(type_) == keeps
