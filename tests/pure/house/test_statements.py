"""No value of a record becomes part of a statement's text: only names, types and our own numbers are put into one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.settings import PROJECT_ROOT

_STATEMENTS = {"sql", "expr", "where", "filter", "selectExpr", "query"}
# Calls that make text safe or make it from the pipeline file; attributes of the pipeline file; our own names.
_SAFE_CALLS = {
    "spark_name",
    "spark_table",
    "spark_text",
    "join",
    "map",
    "merge_statement",
    "_definitions",
    "_properties",
    "is_ours",
    "order_of",
    "order_type",
    "_field",
}
_SAFE_NAMES = {
    "LINEAGE",
    "PURGED",
    "GONE",
    "order",
    "column.type",
    "batch.generation",
    "batch.batch_id",
    "_WAS",
    "_RANGES",
    "VIEW",
    "POSITION",
    "RECORD",  # constants
    "path",
    "name",
    "names",
    "keys",
    "variable",
    "range_type",
    "condition",
    "columns",
    "definition",
    "text",
    "n",
    "place",
    "table",
    "target",
    "source",
    "current",
    "hours",
    "number",
    "kind",
    "version",
}


def _statements(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _STATEMENTS:
                yield from (part for given in node.args for part in ast.walk(given) if isinstance(part, ast.JoinedStr))


def _is_safe(value: ast.expr) -> bool:
    match value:
        case ast.Name() | ast.Attribute():
            return ast.unparse(value) in _SAFE_NAMES
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in _SAFE_CALLS
        case _:
            return False


@pytest.mark.parametrize("file", sorted((PROJECT_ROOT / "spark_jobs").rglob("*.py")), ids=lambda file: file.stem)
def test_what_stands_in_a_statement_is_no_value_of_a_record(file: Path) -> None:
    found = [
        f"{file.name}:{part.lineno}: {ast.unparse(part)}"
        for statement in _statements(ast.parse(file.read_text()))
        for part in statement.values
        if isinstance(part, ast.FormattedValue) and not _is_safe(part.value)
    ]
    assert found == []
