"""The runners: one setting, the same job code, the same table."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from include.installation.stack import Stack
from include.jobs.artifact import build_artifact
from include.jobs.cluster_job import ClusterWatch
from include.jobs.report import JobReport
from include.jobs.runner import run_job, submit_job
from include.lake.stores import files_at
from include.protocol.batch import BatchKey
from include.protocol.errors import OutcomeUnknownError, TerminalError
from include.protocol.ledger_events import AttemptEnded
from include.settings import Settings
from tests.conftest import NOT_ALLOWED, world_in
from tests.support.spark_cluster import SMALL_JOBS, standalone_cluster
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, changes, newest_by_key


def with_runner(settings: Settings, **changes: str) -> Settings:
    """The same installation with another runner."""
    environment = settings.child_environment(**changes)
    if changes["LAKEMARK_RUNNER"] != "connect":
        del environment["LAKEMARK_SPARK_REMOTE"]
    return Settings.from_environment(environment)


def drained_by(world: World, settings: Settings, name: str) -> list[str]:
    """Runs two batches, checks the table, and returns the batches' outcomes."""
    topic = world.topic()
    world.produce(topic, changes(range(80), seq=1))
    pipeline = world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 50}})
    run = world.coordinator(pipeline).plan_run()
    results = run_job(settings, name, run, "test", lambda fact: None, print)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    ran = {BatchKey(r["generation"], r["batch_id"]) for r in results}
    assert [r.batch.batch_id for r in world.coordinator(pipeline).settle_run(run, ran)] == [0, 1]
    return [r["outcome"] for r in results]


@pytest.mark.parametrize("runner", ["connect", pytest.param("local", marks=pytest.mark.slow)])
def test_the_job_runs_on_this_machine(world: World, runner: str) -> None:
    settings = with_runner(world.settings, LAKEMARK_RUNNER=runner)
    assert settings.runner == runner
    assert drained_by(world, settings, f"by_{runner}") == ["applied"] * 2


@pytest.mark.slow
def test_the_job_runs_on_a_cluster(world: World, tmp_path: Path) -> None:
    with standalone_cluster(world.settings, tmp_path / "cluster") as cluster:
        assert drained_by(world, with_runner(world.settings, **cluster), "by_cluster") == ["applied"] * 2
        assert executors_that_worked(tmp_path) == 1
        with_driver = with_runner(world.settings, **cluster, LAKEMARK_SPARK_DEPLOY_MODE="cluster")
        assert drained_by(world, with_driver, "in_cluster") == ["applied"] * 2
        assert executors_that_worked(tmp_path) == 2
        assert len(list((tmp_path / "cluster" / "work").glob("driver-*"))) == 1
        jobs = world.settings.lake / "_lakemark/jobs"
        assert [*files_at(jobs).list(jobs)] == []
        an_error_of_a_driver_on_the_cluster_is_the_job_s_own(world, with_driver)
        a_try_ends_the_driver_that_an_earlier_one_left(world, with_driver)


def executors_that_worked(tmp_path: Path) -> int:
    logs = (tmp_path / "cluster" / "work").glob("app-*/*/stderr")
    return sum("Finished task" in log.read_text() for log in logs)


def an_error_of_a_driver_on_the_cluster_is_the_job_s_own(world: World, settings: Settings) -> None:
    topic = world.topic()
    world.produce(topic, changes(range(10), seq=1))
    pipeline = world.pipeline(topic, "gap_in_cluster", source={"limits": {"records_per_batch_max": 5}})
    world.coordinator(pipeline).plan()
    with pytest.raises(TerminalError, match="never planned"):
        run_job(settings, pipeline.name, BatchKey(1, 7), "test", lambda fact: None, print)


def a_try_ends_the_driver_that_an_earlier_one_left(world: World, settings: Settings) -> None:
    topic = world.topic()
    world.produce(topic, changes(range(10), seq=1))
    pipeline = world.pipeline(topic, "ended_in_cluster")
    run = world.coordinator(pipeline).plan_run()
    assert run is not None
    first = submit_job(settings, pipeline.name, run, "airflow dags/d/runs/r/tasks/merge?try_number=1")
    assert first is not None
    watch = ClusterWatch(first)
    wait_until(lambda: watch.look()[1], 120)  # it has begun
    second = submit_job(settings, pipeline.name, run, "airflow dags/d/runs/r/tasks/merge?try_number=2")
    assert second is not None
    wait_until(lambda: first.state().is_end, 60)
    with pytest.raises(OutcomeUnknownError, match="the driver is KILLED"):
        JobReport(first.about, lambda fact: None, print).results(first.state().ending)
    wait_until(lambda: second.state().is_end, 120)
    assert second.state().ending is None
    second.end()
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))


def test_the_code_reaches_a_cluster_as_one_file_named_by_its_content(world: World) -> None:
    first, entry = (world.on_disk(file) for file in build_artifact(world.settings))
    before = first.read_bytes()
    first.unlink()
    again = world.on_disk(build_artifact(world.settings)[0])
    assert (again, again.read_bytes()) == (first, before)
    assert again.name.startswith(f"lakemark-{world.settings.code_version}-")
    names = zipfile.ZipFile(again).namelist()
    assert {"spark_jobs/merge_job.py", "include/control/coordinator.py"} <= set(names)
    assert not any(name.startswith(("dags", "plugins", "tests")) for name in names)
    assert "spark_jobs.merge_job" in entry.read_text()


@pytest.mark.slow
def test_a_batch_that_spark_does_not_hand_over_is_merged_by_spark(world: World, tmp_path: Path) -> None:
    """What records hold may be more than `spark.driver.maxResultSize`: that must not fail their batch."""
    topic, properties = world.topic(), tmp_path / "spark.properties"
    properties.write_text("spark.driver.maxResultSize 100k\n")
    pipeline = world.pipeline(topic, "too_large", source={"limits": {"records_per_batch_max": 10_000}})
    world.produce(topic, changes(range(10), seq=1))
    world.run_batch(pipeline)
    world.produce(topic, [*changes(range(9_000), seq=2, name="a long name " * 10)])
    run = world.coordinator(pipeline).plan_run()
    settings = with_runner(world.settings, LAKEMARK_RUNNER="spark-submit", LAKEMARK_SPARK_PROPERTIES=str(properties))
    results = run_job(settings, pipeline.name, run, "test", lambda fact: None, print)
    assert [result["outcome"] for result in results] == ["applied"]
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    ended = [event for event in world.coordinator(pipeline).ledger.events() if isinstance(event, AttemptEnded)]
    assert ended[-1].engines == {"target": "spark: too many bytes"}


@pytest.mark.slow
def test_two_workers_that_share_no_folder_run_a_job_in_a_lake_on_an_object_store(stack: Stack, tmp_path: Path) -> None:
    """Each worker sees a home, pipeline files and a login of its own, and none of the store's files."""
    world = world_in(tmp_path / "world", stack, "s3")
    home, files = world.settings.home, tmp_path / "world"

    def apart(number: int) -> list[str]:
        own = tmp_path / f"own-{number}"
        own.mkdir()
        shutil.copy(stack.store.login, own)
        (own / "pipelines").mkdir()
        script = (
            f"mount -t tmpfs none {home} && mkdir {home}/s3 && cp {own}/credentials {home}/s3/ && "
            f'mount --bind {own}/pipelines {files}/pipelines && exec "$@"'
        )
        return ["unshare", "--mount", "sh", "-c", script, "sh"]

    may = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if may.returncode:
        pytest.skip(f"{NOT_ALLOWED} give a process its own file systems: {may.stderr}")
    workers = {"workers": 2, "worker": ("--cores", "2", "--memory", "1500m"), "apart": apart}
    jobs = {**SMALL_JOBS, "spark.executor.cores": "1", "spark.cores.max": "2", "spark.default.parallelism": "4"}
    with standalone_cluster(world.settings, tmp_path / "cluster", jobs=jobs, **workers) as cluster:
        cluster["LAKEMARK_SPARK_DEPLOY_MODE"] = "cluster"
        settings = with_runner(world.settings, **cluster, LAKEMARK_MERGE_ENGINE="spark")
        topic = world.topic()
        world.produce(topic, changes(range(80), seq=1))
        pipeline = world.pipeline(topic, "apart", source={"limits": {"records_per_batch_max": 50}})
        for number in range(2):
            shutil.copy(settings.pipelines / "apart.yaml", tmp_path / f"own-{number}" / "pipelines")
        results = run_job(settings, "apart", world.coordinator(pipeline).plan_run(), "test", print, print)
    assert [result["outcome"] for result in results] == ["applied"] * 2
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    worked = {
        log.parents[2].name
        for log in (tmp_path / "cluster").glob("work*/app-*/*/stderr")
        if "Finished task" in log.read_text()
    }
    assert worked == {"work", "work-1"}
