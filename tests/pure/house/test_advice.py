"""Checks what errors tell people to do: `lakemark` takes every command in them as it stands, and every terminal error
has a test that follows its advice word for word."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.cli.command import _parser
from include.protocol import errors
from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT

HOLE = "\0"  # stands for a value that is put into a string
# What a person or the error itself puts into a hole, by the option before it.
FILLED = {"--range": "orders-0:10-20", "--from": "3", "--cancel": "1", "--resume": "1", "--batches": "1"}

# Terminal errors, and the test that follows what each says.
FOLLOWED = {
    "BatchMismatch": "tests/spark/control/test_advice.py::test_a_batch_of_other_ranges",
    "CountsDisagree": "tests/spark/control/test_advice.py::test_numbers_that_do_not_add_up",
    "FencedGeneration": "tests/spark/control/test_advice.py::test_a_generation_whose_end_was_interrupted",
    "LedgerBehindTarget": "tests/spark/control/test_advice.py::test_a_ledger_that_is_lost",
    "LedgerConflict": "tests/spark/control/test_advice.py::test_a_ledger_that_contradicts_itself",
    "OffsetsExpired": "tests/spark/control/test_advice.py::test_records_that_kafka_has_dropped",
    "PipelineFileError": "tests/spark/control/test_advice_on_files.py::test_files_that_are_not_valid",
    "ProgressUnreadable": "tests/local/delivery/test_odd_tables.py::test_a_progress_that_no_delivery_has_written",
    "QualityGate": "tests/spark/control/test_advice_on_files.py::test_a_gate_that_a_batch_does_not_pass",
    "RangeGap": "tests/spark/control/test_advice.py::test_a_gap",
    "SchemaChanged": "tests/spark/control/test_advice.py::test_other_keys",
    "StoreRefuses": "tests/local/lake/s3/test_lakes.py::test_what_a_refusal_advises",
    "SuiteError": "tests/spark/control/test_advice_on_files.py::test_files_that_are_not_valid",
    "TableDamaged": "tests/spark/control/test_advice.py::test_a_table_that_is_damaged",
    "TargetBehindLedger": "tests/spark/control/test_advice.py::test_a_target_that_was_rolled_back",
    "TopicRecreated": "tests/spark/control/test_advice.py::test_a_topic_that_was_made_anew",
    "TransformError": "tests/spark/control/test_advice_on_files.py::test_files_that_are_not_valid",
}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that the code makes, without docstrings, with a hole where a value is put in."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside.add(id(node.value))  # a docstring
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else HOLE for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def commands() -> list[tuple[str, str]]:
    """Every command in backticks, and where it stands."""
    found = []
    for folder in ("include", "spark_jobs", "plugins", "dags"):
        for path in sorted((PROJECT_ROOT / folder).rglob("*.py")):
            for line, text in texts(ast.parse(path.read_text())):
                where = f"{path.relative_to(PROJECT_ROOT)}:{line}"
                found += [(where, command) for command in re.findall(r"`(lakemark [^`]*)`", text)]
    return found


COMMANDS = commands()


def filled(words: list[str]) -> Iterator[str]:
    for before, word in zip(["", *words], words, strict=False):
        is_open = HOLE in word or word == "..." or word.isupper()
        yield FILLED.get(before, "p") if is_open else word


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 40
    assert any("ledger skip" in command and HOLE in command for _, command in COMMANDS)


@pytest.mark.parametrize(("where", "command"), COMMANDS, ids=[f"{w} {c}".replace(HOLE, "_") for w, c in COMMANDS])
def test_a_command_that_is_told_is_one_that_can_be_given(
    where: str, command: str, capsys: pytest.CaptureFixture
) -> None:
    try:
        _parser().parse_args(list(filled(shlex.split(command)))[1:])
    except SystemExit:
        pytest.fail(f"{where} tells people to type `{command.replace(HOLE, '_')}`: {capsys.readouterr().err}")


def test_the_advice_of_every_terminal_error_is_followed_by_a_test() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, TerminalError) and value is not TerminalError
    }
    assert classes == FOLLOWED.keys()
    for error, place in FOLLOWED.items():
        file, name = place.split("::")
        tree = ast.parse((Path(PROJECT_ROOT) / file).read_text())
        [test] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        body = ast.unparse(test)
        assert "follow" in body, f"{place} does not follow what {error} says"
        assert error in body, f"{place} does not speak of {error}"
