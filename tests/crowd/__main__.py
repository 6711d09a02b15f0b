"""Many pipelines at once in one Airflow, each started by its own data, while its parts are killed.

    python -m tests.crowd --pipelines 20 --minutes 15 [--group]

With `--group` they are the members of one group, and three ill ones are beside them: one gets records that are no JSON,
one waits for a schema registry that never answers, one has a foreign table in the place of its own.

Exits 0 only if every table is what the oracle says and every audit is clean. Prints how long a record takes from its
producer's acknowledgement to a row that can be read, how long to the attempt's start, and from commit to settled.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket

import psutil
import pyarrow as pa
from deltalake import write_deltalake

from include.pipeline_file import Pipeline
from tests.conftest import settings_in
from tests.support.installed import Installed, job_of, jobs_with
from tests.support.load import Load, differing, latencies, spread, wait_seconds, wait_until_read
from tests.support.silent_server import silent_server
from tests.support.spark_cluster import standalone_cluster
from tests.support.waiting import wait_until
from tests.support.world import World

_GROUP = "crowd"
GROUP_DAG = f"lakemark_group__{_GROUP}"
ON_DATA = {"on_data": {"records": 500, "seconds": 5}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="crowd", description=__doc__.splitlines()[0])
    parser.add_argument("--pipelines", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--events-per-second", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cron", help="start runs by this cron expression, not by their data")
    parser.add_argument("--submit", action="store_true", help="spark-submit to a standalone cluster, no warm server")
    parser.add_argument("--database", help="SQLAlchemy URL for Airflow, an empty one; SQLite unless given")
    parser.add_argument("--calm", action="store_true", help="kill nothing")
    parser.add_argument("--group", action="store_true", help="in one group, with ill members; kills every half minute")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lakemark-crowd-"))
    settings = {"LAKEMARK_AIRFLOW_DATABASE": options.database} if options.database else {}
    with ExitStack() as stack:
        if options.submit:
            settings |= stack.enter_context(standalone_cluster(settings_in(home), home / "cluster"))
        installed = Installed(home, **settings)
        stack.callback(installed.stack.down)
        good = crowd(installed, options)
    if good:
        shutil.rmtree(home, ignore_errors=True)
    return 0 if good else 1


def crowd(installed: Installed, options: argparse.Namespace) -> bool:
    began, world = time.monotonic(), installed.world

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.0f} s  {text}", flush=True)

    schedule = options.cron or ON_DATA
    source = {"limits": {"records_per_batch_max": 100_000}}  # a run takes what waits in one batch
    shown = {"group": _GROUP} if options.group else {}
    pipelines = [
        world.pipeline(world.topic(), f"crowd_{n:02}", schedule=schedule, source=source, **shown)
        for n in range(options.pipelines)
    ]
    ill = Ill.among(world, pipelines, schedule) if options.group else None
    for pipeline in pipelines:
        installed.dag(pipeline)
    if ill is not None:
        wait_until(lambda: installed.api.dag_exists(GROUP_DAG), 90)
        installed.api.unpause(GROUP_DAG)
    say(f"{len(pipelines)} pipelines are watched")
    topics = [pipeline.source.topics[0] for pipeline in pipelines]
    load = Load(world.bootstrap_servers, topics, 60 * options.events_per_second / len(topics), options.seed)
    load.start()
    kills = [partial(kill_service, installed, "airflow-scheduler"), partial(kill_worker, pipelines)]
    if options.group:
        services = ("airflow-scheduler", "airflow-triggerer", "airflow-dag-processor", "spark", "kafka")
        among = [kill_member_worker, kill_group_task, *(partial(kill_service, installed, name) for name in services)]
        chance = random.Random(options.seed)
        kills = [chance.choice(among) for _ in range(int(options.minutes * 2) - 1)]
    for kill in (*kills, None):
        wait_seconds(options.minutes * 60 / (len(kills) + 1))
        say(f"{len(load.sent):,} events; {progress(installed, pipelines)}")
        if ill is not None:
            ill.poison()
        if kill is not None and not options.calm:
            say(kill())
    load.enough.set()
    load.join()
    say(f"{len(load.sent):,} events sent; waiting until all of them are applied")
    wait_until_read(world, pipelines, 2400)
    say(f"{progress(installed, pipelines)}; nothing waits")
    wrong = [*differing(world, pipelines, load), *(ill.wrong() if ill is not None else ())]
    audits = json.loads(installed.lakemark("audit", *(p.name for p in pipelines), "--json"))
    findings = [f for audit in audits for f in audit["findings"]]
    say(f"tables that differ from the oracle: {', '.join(wrong) or 'none'}; audit findings: {findings or 'none'}")
    for name, seconds in latencies(world, pipelines, load).items():
        say(f"{name}: {spread(seconds)}")
    return not wrong and not findings


def kill_service(installed: Installed, name: str) -> str:
    pid = installed.stack.service_pid(name)
    if pid is None:
        return f"{name} is away already"
    psutil.Process(pid).send_signal(signal.SIGKILL)
    return f"killed {name} (process {pid})"


def kill_member_worker() -> str:
    """Kills a job that does turns of the group's members."""
    worker = wait_until(lambda: next(iter(jobs_with("--members")), None), 120)
    worker.send_signal(signal.SIGKILL)
    return f"killed a worker of the group (process {worker.pid})"


def kill_group_task() -> str:
    """Its workers end by themselves."""
    job = wait_until(lambda: next(iter(jobs_with("--members")), None), 120)
    return f"killed the group's task (processes {kill_task_of(job)})"


def kill_worker(pipelines: list[Pipeline]) -> str:
    job = wait_until(lambda: next(filter(None, map(job_of, pipelines)), None), 120)
    return f"killed a worker and its task (processes {kill_task_of(job)})"


def kill_task_of(job: psutil.Process) -> str:
    """Kills the process that supervises the task of a job, and with it the task. Returns their ids."""
    task = job.parent()
    worker = task.parent()
    for process in (worker, task):
        process.send_signal(signal.SIGKILL)
    return f"{worker.pid}, {task.pid}"


def progress(installed: Installed, pipelines: list[Pipeline]) -> str:
    """Batches of all pipelines, and whether all of them get their turn."""
    batches = [installed.world.coordinator(p).ledger.state().committed_through + 1 for p in pipelines]
    return f"{sum(batches)} batches committed, {min(batches)} to {max(batches)} of a pipeline"


@dataclass
class Ill:
    """The ill members of the group. One of them, the poisoned one, has a table to be right nevertheless."""

    world: World
    poisoned: Pipeline
    silent: socket  # the registry
    sent: int = 0

    @classmethod
    def among(cls, world: World, pipelines: list[Pipeline], schedule: object) -> Ill:
        """Makes the last of the pipelines the poisoned one, and adds two that never come to an end."""
        silent, address = silent_server()
        registry = {"url": f"http://{address}"}
        hanging, foreign = (world.topic() for _ in range(2))
        shown = {"schedule": schedule, "group": _GROUP}
        world.pipeline(hanging, "crowd_hanging", source={"format": "avro", "registry": registry}, **shown)
        pipeline = world.pipeline(foreign, "crowd_foreign", **shown)
        write_deltalake(str(world.coordinator(pipeline).tables.target), pa.table({"other": [1]}))
        for topic in (hanging, foreign):
            world.produce(topic, [b"\0\0\0\0\1abc"])
        return cls(world, pipelines[-1], silent)

    def poison(self) -> None:
        self.world.produce(self.poisoned.source.topics[0], [b"no json"] * 3)
        self.sent += 3

    def wrong(self) -> list[str]:
        kept = len(self.world.quarantine(self.poisoned))
        return [] if kept == self.sent else [f"the quarantine has {kept} of {self.sent} records"]


if __name__ == "__main__":
    sys.exit(main())
