"""Beyond one worker: one lake, and two workers of Airflow that each have a Spark server of their own.

    pip install --target FOLDER --no-deps apache-airflow-providers-edge3==5.1.0 retryhttp aiofiles aiohttp \
        aiohappyeyeballs aiosignal frozenlist multidict propcache yarl
    python -m tests.bench.workers --provider FOLDER

Here both share this machine, as do their servers. Airflow's Edge executor sends tasks to them over HTTP, so they need
no more than a second machine would have: the lake, the pipeline files, and Airflow's address. Half-way one of the two
Spark servers is killed, and started again. In the end every table must be what the oracle says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from include.installation.stack import PORTS, Stack
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT, token_file
from tests.support.installed import Installed
from tests.support.load import Load, differing, latencies, spread, wait_seconds, wait_until_read
from tests.support.sink_servers import free_port, postgres_server
from tests.support.stopped import end
from tests.support.waiting import wait_until

_EDGE = "airflow.providers.edge3"
_SECOND_SERVER_SECONDS = 120
_GROUPS = ("a", "b")  # the run of a group is one task, so as many groups as workers keep them all busy
_BEGAN = time.monotonic()


@dataclass
class SecondServer:
    """A Spark server beside that of `lakemark up`, as `include.installation.spark_server` starts it."""

    stack: Stack
    home: Path
    port: int

    def start(self) -> subprocess.Popen[bytes]:
        self.home.mkdir(exist_ok=True)
        environment = self.stack.settings.child_environment(
            LAKEMARK_HOME=str(self.home), LAKEMARK_SPARK_TOKEN=token_file(self.stack.settings.home).read_text()
        )
        command = [sys.executable, "-m", "include.installation.spark_server", "--port", str(self.port)]
        begun = self._begun()
        with (self.home / "spark.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=environment, stdout=log, stderr=log)
        wait_until(lambda: self._begun() > begun, _SECOND_SERVER_SECONDS)
        return process

    def _begun(self) -> int:
        log = self.home / "spark.log"
        return log.read_bytes().count(b"serving") if log.exists() else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workers", description=__doc__.splitlines()[0])
    parser.add_argument("--provider", type=Path, required=True, help="folder with the Edge provider")
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--per-minute", type=float, default=500, help="records to each pipeline")
    parser.add_argument("--minutes", type=float, default=3, help="twice: before a server is killed, and after")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakemark-workers-")))
        database = stack.enter_context(postgres_server(max_connections="100"))
        ports = {name: free_port() for name in PORTS}
        (home / "installed").mkdir()
        (home / "installed" / "ports.json").write_text(json.dumps(ports))
        variables = {
            "PYTHONPATH": os.pathsep.join(map(str, (options.provider, PROJECT_ROOT))),
            "LAKEMARK_AIRFLOW_DATABASE": f"postgresql+psycopg://lakemark@127.0.0.1:{database.port}/postgres",
            "LAKEMARK_SPARK_POOL_SLOTS": "4",
            "AIRFLOW__CORE__EXECUTOR": f"{_EDGE}.executors.EdgeExecutor",
            "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS": f"{_EDGE}.models.db.EdgeDBManager",
            "AIRFLOW__EDGE__API_ENABLED": "True",
            "AIRFLOW__EDGE__API_URL": f"http://127.0.0.1:{ports['airflow']}/edge_worker/v1/rpcapi",
            "AIRFLOW__EDGE__JOB_POLL_INTERVAL": "1",
        }
        installed = Installed(home / "installed", **variables)
        stack.callback(installed.stack.down)
        return _run(installed, home, options, stack)


def _run(installed: Installed, home: Path, options: argparse.Namespace, stack: ExitStack) -> int:
    own = installed.stack
    second = SecondServer(own, home / "second", free_port())
    server = second.start()
    stack.callback(lambda: end(server))
    for name, remote in (("first", own.spark.remote), ("second", f"sc://127.0.0.1:{second.port}")):
        stack.enter_context(_worker(installed, home, name, remote))
    pipelines = [_pipeline(installed, number) for number in range(options.pipelines)]
    for group in _GROUPS:
        wait_until(lambda group=group: installed.api.dag_exists(f"lakemark_group__{group}"), 120)
        installed.api.unpause(f"lakemark_group__{group}")
    world = installed.world
    load = Load(world.bootstrap_servers, [p.source.topics[0] for p in pipelines], options.per_minute, seed=1)
    load.first_records(lambda: wait_until_read(world, pipelines, 600))
    _say(f"{len(pipelines)} pipelines in {len(_GROUPS)} groups are read, {options.per_minute:g} records a minute each")
    load.start()
    wait_seconds(options.minutes * 60)
    _say(f"CPU seconds of the two servers: {_cpu(own.service_pid('spark'))} and {_cpu(server.pid)}")
    server.kill()
    server.wait()
    server = second.start()
    _say("the second server was killed, and serves again")
    wait_seconds(options.minutes * 60)
    load.enough.set()
    load.join()
    wait_until_read(world, pipelines, 600)
    _say(f"CPU seconds of the two servers: {_cpu(own.service_pid('spark'))} and {_cpu(server.pid)}")
    for name, seconds in latencies(world, pipelines, load).items():
        _say(f"{name}: {spread(seconds)}")
    wrong = differing(world, pipelines, load)
    _say(f"{len(load.sent):,} records; tables that differ from the oracle: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def _pipeline(installed: Installed, number: int) -> Pipeline:
    world, schedule = installed.world, {"on_data": {"records": 500, "seconds": 5}}
    group = _GROUPS[number % len(_GROUPS)]
    return world.pipeline(world.topic(), f"spread_{number:03}", schedule=schedule, group=group)


@contextmanager
def _worker(installed: Installed, home: Path, name: str, remote: str) -> Iterator[None]:
    """A worker of Airflow whose jobs run on that Spark server."""
    stack = installed.stack
    environment = stack.settings.child_environment(
        **{**stack.addresses(), **stack.airflow.environment(stack.settings.environment)},
        HOSTNAME=name,
        LAKEMARK_SPARK_TOKEN=token_file(stack.settings.home).read_text(),
    )
    command = [str(Path(sys.executable).parent / "airflow"), "edge", "worker", "--edge-hostname", name]
    command += ["--concurrency", "4", "--pid", str(home / f"{name}.pid")]
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=PROJECT_ROOT, env={**environment, "LAKEMARK_SPARK_REMOTE": remote}, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        shutil.copy(home / f"{name}.log", Path(tempfile.gettempdir()) / f"lakemark-worker-{name}.log")
        end(process)


def _cpu(pid: int | None) -> str:
    times = psutil.Process(pid).cpu_times()
    return f"{times.user + times.system:.0f}"


def _say(text: str) -> None:
    print(f"{time.monotonic() - _BEGAN:7.0f} s  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
