"""When the warm Spark server makes way for a fresh one."""

from __future__ import annotations

import pytest

from spark_jobs.commands import recycling
from spark_jobs.commands.recycling import Limits, Recycling, Use

LIMITS = Limits(seconds=1000, memory_bytes=100)
AT_REST, BETWEEN, EXECUTING = Use(False, 60), Use(False, 0.1), Use(True, 60)


@pytest.mark.parametrize(("age", "memory"), [(1000, 100), (0, 0)])
def test_a_server_within_its_limits_goes_on(age: float, memory: int) -> None:
    def use() -> Use:
        raise AssertionError("nobody need ask")

    assert Recycling(LIMITS).why_now(age, memory, use) is None


@pytest.mark.parametrize(("age", "memory"), [(1001, 0), (0, 101)])
def test_an_old_or_a_large_server_ends_while_nobody_uses_it(age: float, memory: int) -> None:
    due = Recycling(LIMITS)
    assert due.why_now(age, memory, lambda: EXECUTING) is None
    assert due.why_now(age + 1, memory, lambda: BETWEEN) is None
    assert due.why_now(age + 2, memory, lambda: AT_REST)


def test_one_that_is_always_used_ends_between_two_statements_and_at_last_in_any_case() -> None:
    due = Recycling(LIMITS)
    for waited, use, ends in (
        (0, BETWEEN, False),
        (recycling.GAP_AFTER_SECONDS - 1, BETWEEN, False),
        (recycling.GAP_AFTER_SECONDS, EXECUTING, False),
        (recycling.GAP_AFTER_SECONDS, BETWEEN, True),
        (recycling.ANYHOW_AFTER_SECONDS, EXECUTING, True),
    ):
        assert (due.why_now(1001 + waited, 0, lambda use=use: use) is not None) == ends


def test_memory_that_was_given_back_makes_it_no_longer_due() -> None:
    due = Recycling(LIMITS)
    assert due.why_now(0, 101, lambda: BETWEEN) is None
    assert due.why_now(500, 50, lambda: BETWEEN) is None
    assert due.why_now(501, 101, lambda: BETWEEN) is None  # it waits anew
