"""A real standalone Spark cluster, master and workers, from PySpark's own JARs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import requests

from include.installation.jars import pyspark_home
from include.installation.java import find_java
from include.installation.stack import free_port
from include.jobs.spark_command import CLIENT_ONLY
from include.settings import Settings
from tests.support.waiting import wait_until

# A small executor, and a driver that fits beside it.
SMALL_JOBS = {"spark.executor.memory": "600m", "spark.driver.memory": "800m"}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def standalone_cluster(
    settings: Settings,
    folder: Path,
    workers: int = 1,
    worker: Sequence[str] = ("--cores", "2", "--memory", "2g"),
    jobs: Mapping[str, str] = SMALL_JOBS,
    apart: Callable[[int], Sequence[str]] = lambda number: (),
) -> Iterator[dict[str, str]]:
    """Runs the cluster; yields the environment of an installation that submits its jobs to it.

    Args:
        worker: arguments of each. jobs: Spark properties of every job. apart: what runs the command of a worker with
            this number, if it is to see other folders.
    """
    folder.mkdir()
    port, page, rest = free_port(7077), free_port(18080), free_port(6066)
    properties = folder / "master.conf"
    properties.write_text(f"spark.master.rest.enabled true\nspark.master.rest.port {rest}\n")
    jobs_file = folder / "jobs.conf"
    jobs_file.write_text("".join(f"{name} {value}\n" for name, value in {**jobs, **_LOOPBACK}.items()))
    java = find_java(settings.java, settings.home / "java")
    own = {name: value for name, value in settings.environment.items() if name not in CLIENT_ONLY}
    environment = {**own, "JAVA_HOME": str(java.home), "SPARK_HOME": str(pyspark_home())}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    spark_class, roles = pyspark_home() / "bin" / "spark-class", "org.apache.spark.deploy"
    url = f"spark://127.0.0.1:{port}"
    master = [f"{roles}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    master += ["--properties-file", str(properties)]
    each = [f"{roles}.worker.Worker", "--host", "127.0.0.1", *worker, url]
    started: list[subprocess.Popen] = []

    def alive() -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{page}/json/", timeout=5).json()["aliveworkers"] == workers
        except (requests.RequestException, ValueError):
            return False

    try:
        with (folder / "cluster.log").open("w") as log:
            commands = [[str(spark_class), *master]]
            for n in range(workers):
                work = folder / ("work" if n == 0 else f"work-{n}")
                own_of = ["--webui-port", str(free_port(18081 + n)), "--work-dir", str(work)]
                commands.append([*apart(n), str(spark_class), *each[:-1], *own_of, url])
            for command in commands:
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder))
        wait_until(alive, 90)
        yield {
            "LAKEMARK_RUNNER": "spark-submit",
            "LAKEMARK_SPARK_MASTER": url,
            "LAKEMARK_SPARK_REST": f"http://127.0.0.1:{rest}",
            "LAKEMARK_SPARK_PROPERTIES": str(jobs_file),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
    finally:
        for process in started:
            process.kill()
            process.wait()
