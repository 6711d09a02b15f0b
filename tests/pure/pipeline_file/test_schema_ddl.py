"""A schema of columns, as a pipeline file writes it."""

from __future__ import annotations

import pytest

from include.pipeline_file.schema_ddl import SchemaError, parse_ddl

INJECTED = [
    "a STRUCT<x: INT>) USING csv LOCATION '/etc' --<>",
    "a STRUCT<x: INT) USING csv --, y: INT>",
    "a INT) USING csv --",
    "a INT COMMENT 'x\\' ) USING csv --'",
    "a MAP<INT>",
    "a ARRAY<INT, INT>",
    "a ARRAY<>",
    "a STRUCT<x INT; DROP TABLE y>",
    "a DECIMAL(1, 2) DROP",
]


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("a INT", [("a", "INT")]),
        ("a int NOT NULL, `b c` DECIMAL(10, 2) COMMENT 'x, y'", [("a", "int"), ("b c", "DECIMAL(10, 2)")]),
        ("a STRUCT<x: INT, y: MAP<INT, INT>>, b INT", [("a", "STRUCT<x: INT, y: MAP<INT, INT>>"), ("b", "INT")]),
    ],
)
def test_ddl(ddl: str, columns: list[tuple[str, str]]) -> None:
    assert [(c.name, c.type) for c in parse_ddl(ddl)] == columns


@pytest.mark.parametrize("ddl", ["", "a", "a INT, A STRING", "a ARRAY<INT", "a NUMBER", "1a INT", "a ARRAY", *INJECTED])
def test_ddl_that_spark_would_refuse(ddl: str) -> None:
    with pytest.raises(SchemaError):
        parse_ddl(ddl)
