"""The warm Spark server of `lakemark up`, as a process of its own."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException

from tests.conftest import stack_in, world_in
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key


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


@pytest.mark.slow
def test_a_server_that_holds_too_much_makes_way_for_a_fresh_one_and_batches_go_on(tmp_path: Path) -> None:
    stack = stack_in(tmp_path / "home", LAKEMARK_SPARK_RECYCLE_MB="500")  # which it has soon
    try:
        stack.up(print, ("kafka", "spark"))
        first = stack.service_pid("spark")
        world = world_in(tmp_path / "world", stack)
        pipeline = world.pipeline(world.topic())
        with world.session() as spark:  # it ends whoever has a session
            for seq in range(2):
                world.produce(pipeline.source.topics[0], changes(range(50), seq))
                assert world.lakemark("run", pipeline.name).returncode == 0
            assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
            with suppress(PySparkException):  # it may end while it takes more memory
                spark.range(3_000_000).selectExpr("id", "uuid() AS text").cache().count()
            wait_until(lambda: stack.service_pid("spark") not in (None, first), 120)
        assert not psutil.pid_exists(first)
        assert "ends, for a fresh server to take its place: it holds" in (stack.settings.logs / "spark.log").read_text()
        stack.wait_for("spark", print)
        world.produce(pipeline.source.topics[0], changes(range(50), 9))
        assert world.lakemark("run", pipeline.name).returncode == 0
        assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    finally:
        stack.down()
