"""How the jobs of one Spark server share its cores."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.engine.session import open_session
from tests.support.waiting import wait_until
from tests.support.world import World

_BACKGROUND_JOBS, _TASKS, _LIVE_TASKS = 2, 120, 20  # as many jobs as the fewest cores
_ENDLESS_TASKS, _MANY = 20_000, 20
_CLIENT = f"""
import sys
from include.settings import Settings
from spark_jobs.engine.session import open_session
from tests.spark.engine.test_sharing import slow_tasks
settings = Settings.from_environment()
with open_session(settings, settings.spark_remote, None) as spark:
    slow_tasks(spark, {_ENDLESS_TASKS}).write.parquet(sys.argv[1])
"""


def slow_tasks(spark: SparkSession, tasks: int) -> DataFrame:
    """A job whose tasks have nothing to do for a while."""
    return spark.range(0, tasks, 1, tasks).selectExpr("id", "java_method('java.lang.Thread', 'sleep', 50L) AS slept")


def written(folder: Path) -> int:
    """How many files Spark's tasks have begun to write there."""
    return sum(name.startswith("part-") for _, _, names in os.walk(folder) for name in names)


def test_live_batches_have_the_first_core_whatever_goes_on_in_the_background(world: World, tmp_path: Path) -> None:
    settings, folder = world.settings, tmp_path / "written"

    with (
        open_session(settings, settings.spark_remote, None, in_background=True) as background,
        world.session() as live,
        ThreadPoolExecutor(_BACKGROUND_JOBS) as jobs,
    ):
        slow_tasks(live, 1).collect()  # from here on it is a matter of cores
        work = slow_tasks(background, _TASKS)
        begun = [jobs.submit(work.write.parquet, str(folder / str(n))) for n in range(_BACKGROUND_JOBS)]
        wait_until(lambda: all(written(folder / str(n)) for n in range(_BACKGROUND_JOBS)), 60)
        before = written(folder)
        slow_tasks(live, _LIVE_TASKS).collect()
        done = written(folder) - before
        assert not any(job.done() for job in begun)
        for job in begun:
            job.result()
    assert done < 3 * _LIVE_TASKS, f"{done} tasks in the background went beside {_LIVE_TASKS} of the live job"


@pytest.mark.slow
def test_what_a_killed_client_has_begun_ends(world: World, tmp_path: Path) -> None:
    """A turn that takes too long is killed, for instance. The others want the cores that it had."""
    folder = tmp_path / "written"
    client = world.start(sys.executable, "-c", _CLIENT, str(folder))
    try:
        wait_until(lambda: written(folder) > _MANY, 60)
    finally:
        client.kill()
        client.wait()
    wait_until(lambda: written(folder) < _MANY / 2, 60)  # Spark removes what a cancelled job's tasks have written
