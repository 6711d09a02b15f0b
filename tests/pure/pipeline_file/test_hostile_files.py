"""Whatever lies in the folder of pipeline files: it is valid or refused at once, and takes no other pipeline with it.

`HOSTILE_SEED=...` runs a failed test's fresh seed once more.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from include.pipeline_file import load_pipelines
from tests.hostile.pipeline_files import FULL, clean, make, write_good, written_whole

FRESH = int(os.environ.get("HOSTILE_SEED") or secrets.randbelow(10**9))
CPU_SECONDS_MAX = 1.0  # of this process, so that the answer does not depend on what else runs
WAIT_SECONDS_MAX = 60.0
SECRET = "hunter2"


@contextmanager
def deadline() -> Iterator[None]:
    """Ends what computes or waits for longer."""

    def fail(number: int, _: object) -> None:
        pytest.fail(f"not done in time: {signal.Signals(number).name}")

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, CPU_SECONDS_MAX),
        signal.SIGALRM: (signal.ITIMER_REAL, WAIT_SECONDS_MAX),
    }
    before = {number: signal.signal(number, fail) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def test_the_file_that_is_harmed_is_good(tmp_path: Path) -> None:
    """Otherwise most of what follows would be refused for another reason."""
    written_whole(tmp_path / "hostile.yaml")
    [pipeline], errors = load_pipelines(tmp_path, {"KAFKA_PW": SECRET})
    assert errors == []
    assert {*FULL} <= pipeline.model_fields_set


@pytest.mark.parametrize(
    ("first", "number"),
    [(0, 200), (FRESH, 200), pytest.param(FRESH + 10**9, 10_000, marks=pytest.mark.slow)],
    ids=["known", "fresh", "many"],
)
def test_any_file_is_valid_or_refused_and_the_others_run_on(tmp_path: Path, first: int, number: int) -> None:
    write_good(tmp_path / "good.yaml")
    for seed in range(first, first + number):
        path = make(seed, tmp_path)
        with deadline():
            pipelines, errors = load_pipelines(tmp_path, {"KAFKA_PW": SECRET})
        names = {pipeline.name for pipeline in pipelines}
        assert "good" in names, seed
        assert len(errors) == (names == {"good"}), seed
        for error in errors:
            assert str(path) in error.where, seed
            assert "defect" not in str(error), (seed, str(error))
            assert len(str(error)) < 30_000, seed
            assert SECRET not in str(error.facts()), seed
        clean(path)
