"""Quotes names and texts for SQL, as the engines that read the lake want it. Pure.

Spark quotes a name with backticks and escapes a text with backslashes. DuckDB and DataFusion follow the standard:
a name stands in double quotes, and a quote inside a name or a text is doubled.
"""

from __future__ import annotations

from include.lake.uri import LakeUri


def spark_name(name: str) -> str:
    """An identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def spark_table(table: LakeUri) -> str:
    """A Delta table in Spark's SQL, named by its place."""
    return f"delta.{spark_name(str(table))}"


def spark_text(text: str) -> str:
    """A string literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_name(name: str) -> str:
    """An identifier of standard SQL: DuckDB, DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(text: str) -> str:
    """A string literal of standard SQL: DuckDB, DataFusion."""
    return "'" + text.replace("'", "''") + "'"


def as_pattern(path: str) -> str:
    """A path, as DuckDB has it where it takes patterns."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)
