"""Lakemark as a user has it, in a home of its own: `lakemark up`, the command, Airflow's REST API."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from include.demo.airflow_api import AirflowApi
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.conftest import settings_in, stack_in
from tests.support.waiting import wait_until
from tests.support.world import World

NETWORK_WATCH = Path(__file__).with_name("network_watch")
LAKEMARK = [str(Path(sys.executable).parent / "lakemark")]


class Metrics(threading.Thread):
    """A StatsD server: keeps what it was sent last under every name."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.last: dict[str, str] = {}
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """What makes Airflow send its metrics here."""
        settings = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(self.socket.getsockname()[1]), "PREFIX": "airflow"}
        return {f"AIRFLOW__METRICS__STATSD_{name}": value for name, value in settings.items()}

    def run(self) -> None:
        while True:
            for line in self.socket.recv(65536).decode().splitlines():
                name, _, value = line.partition(":")
                self.last[name] = value


class Installed:
    """A standing installation in a home of its own."""

    def __init__(self, home: Path, **settings: str) -> None:
        (home / "pipelines").mkdir(parents=True)
        self.metrics = Metrics()
        self.foreign_hosts = home / "foreign_hosts.txt"  # that any of its Python processes turned to
        # The project's root, too: Airflow imports the auth manager of the tests.
        path = os.pathsep.join(filter(None, (str(NETWORK_WATCH), str(PROJECT_ROOT), os.environ.get("PYTHONPATH"))))
        watched = {"PYTHONPATH": path, "LAKEMARK_TEST_FOREIGN_HOSTS": str(self.foreign_hosts)}
        self.places = {"LAKEMARK_PIPELINES": str(home / "pipelines"), **self.metrics.environment, **watched, **settings}
        self.stack = stack_in(home, **self.places)
        self.facts = json.loads(self.lakemark("up", "--json"))
        self.world = World(self.facts["KAFKA_BOOTSTRAP_SERVERS"], settings=settings_in(home, **self.places))
        user, password = self.facts["login"].split(" / ")
        self.api = AirflowApi.login(self.facts["LAKEMARK_AIRFLOW_URL"], user, password)

    def lakemark(self, *arguments: str, code: int = 0, **variables: str) -> str:
        environment = {**self.stack.settings.child_environment(), **variables}
        done = subprocess.run(
            [*LAKEMARK, *arguments], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def dag(self, pipeline: Pipeline, seconds: float = 90) -> str:
        dag_id = f"lakemark__{pipeline.name}"
        wait_until(lambda: self.api.dag_exists(dag_id), seconds)
        self.api.unpause(dag_id)
        return dag_id

    def run(self, dag_id: str) -> tuple[str, str]:
        run_id = self.api.trigger(dag_id)
        return run_id, self.ended(dag_id, run_id)

    def ended(self, dag_id: str, run_id: str, seconds: float = 240) -> str:
        def state() -> str | None:
            now = self.api.run_state(dag_id, run_id)
            return now if now in ("success", "failed") else None

        return wait_until(state, seconds)

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.api.tasks(dag_id, run_id).items()}


def job_of(pipeline: Pipeline) -> psutil.Process | None:
    """The job process that works on a pipeline."""
    return next(iter(jobs_with(pipeline.name)), None)


def jobs_with(argument: str) -> list[psutil.Process]:
    """The job processes that have this argument."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ()).split()  # a forked one names itself by a single text
        if "spark_jobs.merge_job" in line and argument in line:
            found.append(process)
    return found
