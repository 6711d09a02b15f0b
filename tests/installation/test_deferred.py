"""Airflow and a Spark cluster that runs the jobs' drivers: a task that waits for its job holds no worker slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from include.jobs.cluster_job import ClusterJob
from tests.conftest import settings_in
from tests.support.installed import Installed
from tests.support.spark_cluster import standalone_cluster
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("on_cluster")
    with standalone_cluster(settings_in(home), home / "cluster") as cluster:
        installed = Installed(home, **cluster, LAKEMARK_SPARK_DEPLOY_MODE="cluster")
        try:
            yield installed
        finally:
            installed.stack.down()


def test_a_job_on_the_cluster_is_waited_for_in_the_triggerer(on_cluster: Installed) -> None:
    world, api = on_cluster.world, on_cluster.api
    topic = world.topic()
    world.produce(topic, changes(range(40), seq=1))
    pipeline = world.pipeline(topic, "deferred")
    dag_id = on_cluster.dag(pipeline)
    run_id = api.trigger(dag_id)

    def merge_is(state: str) -> bool:
        return api.tasks(dag_id, run_id).get("merge", {}).get("state") == state

    wait_until(lambda: merge_is("deferred"), 120)
    assert on_cluster.ended(dag_id, run_id) == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    log = "\n".join(str(line.get("event")) for line in api.task_log(dag_id, run_id, "merge", 1))
    assert "waits for it in the triggerer" in log
    assert "batch 0 applied" in log  # told by the triggerer
    assert on_cluster.metrics.last.get("airflow.lakemark.batches.deferred") == "1|c"

    # Cleared while it waits: its driver is ended, and the next try does the work.
    world.produce(topic, changes(range(20, 60), seq=2))
    run_id = api.trigger(dag_id)
    wait_until(lambda: merge_is("deferred"), 120)
    first = the_driver(on_cluster)
    api.clear(dag_id, run_id, "merge")
    wait_until(lambda: first.state().name == "KILLED", 60)
    assert on_cluster.ended(dag_id, run_id) == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert list(jobs_folder(on_cluster).iterdir()) == []
    assert on_cluster.lakemark("audit", pipeline.name).endswith("no findings\n")


def jobs_folder(installed: Installed) -> Path:
    return Path(str(installed.stack.settings.lake)) / "_lakemark" / "jobs"


def the_driver(installed: Installed) -> ClusterJob:
    """The newest driver on the cluster."""
    work = installed.stack.settings.home / "cluster" / "work"
    newest = wait_until(lambda: sorted(work.glob("driver-*")), 60)[-1]
    return ClusterJob("", "", "", str(installed.stack.settings.spark_rest), newest.name, "nowhere")
