"""House rules that no linter knows. CONTRIBUTING.md says them in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.settings import PROJECT_ROOT

LINES_MAX = 300
POSITIONAL_MAX = 4
# Functions whose arguments are all of one kind.
_OF_EQUALS = {
    "_lakemark",
    "agg",
    "chain",
    "coalesce",
    "drop",
    "max",
    "min",
    "select",
    "selectExpr",
    "struct",
    "xxhash64",
    "zip",
}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FOLDERS = ("include", "spark_jobs", "plugins", "dags", "tests")
FILES = sorted(
    file
    for folder in FOLDERS
    for suffix in ("*.py", "*.java", "*.js")
    for file in (PROJECT_ROOT / folder).rglob(suffix)
)
PYTHON = [file for file in FILES if file.suffix == ".py"]
PRODUCT = [file for file in PYTHON if file.relative_to(PROJECT_ROOT).parts[0] != "tests"]


def place(file: Path) -> str:
    return str(file.relative_to(PROJECT_ROOT))


def test_a_long_file_says_in_its_first_line_why_it_is_long() -> None:
    long = [file for file in FILES if len(file.read_text().splitlines()) > LINES_MAX]
    assert [place(f) for f in long if f"{LINES_MAX} lines" not in f.read_text().splitlines()[0]] == []


@pytest.mark.parametrize("file", PYTHON, ids=place)
def test_a_docstring_says_what_something_is_or_does(file: Path) -> None:
    """One that begins with "Of ..." leaves the reader to find the subject."""
    docstrings = (
        ast.get_docstring(node) or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, _DOCUMENTED)
    )
    assert [text.splitlines()[0] for text in docstrings if text.startswith("Of ")] == []


@pytest.mark.parametrize("file", PRODUCT, ids=place)
def test_a_call_with_many_arguments_names_them(file: Path) -> None:
    assert list(_unnamed(file)) == []


@pytest.mark.parametrize("file", PRODUCT, ids=place)
def test_any_in_a_public_signature_has_a_reason(file: Path) -> None:
    """The reason stands in a comment in the signature, or in the module's docstring if it holds for the whole module.
    JSON data and rows have types of their own: `include.protocol.json_data`, `include.lake.delta_tables.Row`."""
    text = file.read_text()
    tree, lines = ast.parse(text), text.splitlines()
    if "`Any`" in (ast.get_docstring(tree) or ""):
        return
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            signature = [node.args, *([node.returns] if node.returns else [])]
            named = {n.id for part in signature for n in ast.walk(part) if isinstance(n, ast.Name)}
            if "Any" in named and not any("#" in line for line in lines[node.lineno - 1 : node.body[0].lineno - 1]):
                found.append(f"{file.name}:{node.lineno}: {node.name}")
    assert found == []


def _unnamed(file: Path) -> Iterator[str]:
    """Calls with more arguments than a reader can tell apart by their places."""
    for node in ast.walk(ast.parse(file.read_text())):
        if (
            isinstance(node, ast.Call)
            and sum(not isinstance(given, ast.Starred) for given in node.args) > POSITIONAL_MAX
        ):
            called = ast.unparse(node.func)
            if called.rpartition(".")[2] not in _OF_EQUALS:
                yield f"{file.name}:{node.lineno}: {called}"
