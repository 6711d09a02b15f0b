"""The warm Spark server of `lakemark up`, as a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import stack_in, world_in
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_it_serves_at_once_and_warms_up_until_a_session_comes(tmp_path: Path) -> None:
    stack = stack_in(tmp_path / "home", LAKEMARK_SPARK_WARM_UP_BATCHES="1000")

    def merged() -> re.Match[str] | None:
        return re.search(r"^merged (\d+) batches to warm up", (stack.settings.logs / "spark.log").read_text(), re.M)

    try:
        stack.up(print, ("spark",))
        assert merged() is None
        with world_in(tmp_path, stack).session() as spark:
            assert spark.range(3).count() == 3
            told = wait_until(merged, 60)
        assert int(told[1]) < 20
    finally:
        stack.down()
