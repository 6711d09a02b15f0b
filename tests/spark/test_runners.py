"""The runners: one setting, the same job code, the same table."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from include.artifact import build_artifact
from include.runner import run_job
from include.settings import Settings
from tests.support.spark_cluster import standalone_cluster
from tests.support.world import World, as_dict, changes, newest_by_key


def with_runner(settings: Settings, runner: str, **more: str) -> Settings:
    """The same installation with another runner."""
    environment = settings.child_environment(LAKEMARK_RUNNER=runner, **more)
    if runner != "connect":
        del environment["LAKEMARK_SPARK_REMOTE"]
    return Settings.from_environment(environment)


def drained_by(world: World, settings: Settings, name: str) -> list[str]:
    """Outcomes of a run of two batches, once it is sure that the table is right."""
    topic = world.topic()
    world.produce(topic, changes(range(80), seq=1))
    pipeline = world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 50}})
    run = world.steps(pipeline).plan_run()
    results = run_job(settings, name, run, "test", lambda fact: None, print)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert [r.batch.batch_id for r in world.steps(pipeline).settle_run(run)] == [0, 1]
    return [r["outcome"] for r in results]


@pytest.mark.parametrize("runner", ["connect", pytest.param("local", marks=pytest.mark.slow)])
def test_the_job_runs_on_this_machine(world: World, runner: str) -> None:
    settings = with_runner(world.settings, runner)
    assert settings.runner == runner
    assert drained_by(world, settings, f"by_{runner}") == ["applied"] * 2


@pytest.mark.slow
def test_the_job_runs_on_a_cluster(world: World, tmp_path: Path) -> None:
    properties = tmp_path / "cluster.conf"
    properties.write_text("spark.executor.memory 600m\nspark.driver.host 127.0.0.1\n")
    with standalone_cluster(world.settings, tmp_path / "cluster") as master:
        more = {"LAKEMARK_SPARK_MASTER": master, "LAKEMARK_SPARK_PROPERTIES": str(properties)}
        settings = with_runner(world.settings, "spark-submit", SPARK_LOCAL_IP="127.0.0.1", **more)
        assert drained_by(world, settings, "by_cluster") == ["applied"] * 2
    executors = list((tmp_path / "cluster" / "work").glob("app-*/*/stderr"))
    assert executors, "no executor of the cluster did any work"
    assert "Finished task" in executors[0].read_text()


def test_the_code_reaches_a_cluster_as_one_file_named_by_its_content(world: World) -> None:
    first, entry = build_artifact(world.settings)
    before = first.read_bytes()
    first.unlink()
    again, _ = build_artifact(world.settings)
    assert (again, again.read_bytes()) == (first, before)
    assert again.name.startswith(f"lakemark-{world.settings.code_version}-")
    names = zipfile.ZipFile(again).namelist()
    assert {"spark_jobs/merge_job.py", "include/steps.py"} <= set(names)
    assert not any(name.startswith(("dags", "plugins", "tests")) for name in names)
    assert "spark_jobs.merge_job" in entry.read_text()
