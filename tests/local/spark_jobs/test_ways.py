"""Which way stands in where another fails, and what is said of it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from include.lake.merge.unfit import UnfitError
from spark_jobs.attempt.ways import Way, tried


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnfitError("a key that has several rows"), "a key that has several rows"),
        (RuntimeError("Total size of results is bigger than spark.driver.maxResultSize"), "too little memory"),
    ],
)
def test_the_next_way_is_told_why_the_lane_has_stood_back(error: Exception, said: str) -> None:
    ways: list[tuple[Way, str | None]] = []

    def land(way: Way, unfit: str | None) -> bool:
        ways.append((way, unfit))
        if way == "lane":
            raise error
        return True

    assert tried(["lane", "plain"], land, lambda: None, lambda fact: None, turn=nullcontext)
    assert ways == [("lane", None), ("plain", said)]
