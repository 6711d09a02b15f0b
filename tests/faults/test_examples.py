"""The classic examples of sinks, as `lakemark example` runs them, on the services of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.examples.catalog import EXAMPLES
from include.examples.lab import FILES, lab_in
from include.examples.payments import Payment, Verdict
from tests.support.without_kafka import command
from tests.support.world import World


@pytest.mark.slow  # half a minute each; what they judge by has its own tests here
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_as_it_must(world: World, tmp_path: Path, name: str) -> None:
    said: list[str] = []
    assert EXAMPLES[name].run(lab_in(world.settings, tmp_path / "lab", said.append)), "\n".join(said)
    assert any("each once" in line for line in said)


def test_the_list_names_each_on_a_line() -> None:
    done = command("example", "--list")
    assert [line.partition("  ")[0] for line in done.stdout.splitlines()] == [*EXAMPLES]
    assert {"payments_two_phase", "payments_onward", "payments_files"} <= {file.stem for file in FILES.glob("*.yaml")}


def test_a_name_that_is_none_is_told() -> None:
    done = command("example", "kafka-to-kafk")
    assert done.returncode != 0 and "kafka-to-kafka" in done.stderr


def test_a_verdict_finds_what_is_lost_doubled_and_foreign() -> None:
    one, two, three = Payment(1, 1, 1), Payment(2, 1, 1), Payment(3, 1, 1)
    assert Verdict.on([one, two], [two, one]).is_each_once
    assert Verdict.on([one, two], [one, one, three]) == Verdict(lost=1, doubled=1, foreign=1)
