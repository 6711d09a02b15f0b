"""Names in Spark's SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def table_name(path: str) -> str:
    return f"delta.{quoted(path)}"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
