"""Many pipelines at once in one Airflow, each started by its own data, while its parts are killed.

    python -m tests.crowd --pipelines 20 --minutes 15

Exits 0 only if every table is what the oracle says and every audit is clean. Prints how long a record takes from its
producer's acknowledgement to a row that can be read, how long to the attempt's start, and from commit to settled.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from include.pipeline_file import Pipeline
from tests.conftest import settings_in
from tests.support.installed import Installed, job_of
from tests.support.load import Load, differing, latencies, spread, wait_seconds, wait_until_read
from tests.support.spark_cluster import standalone_cluster
from tests.support.waiting import wait_until

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
    pipelines = [
        world.pipeline(world.topic(), f"crowd_{n:02}", schedule=schedule, source=source)
        for n in range(options.pipelines)
    ]
    for pipeline in pipelines:
        installed.dag(pipeline)
    say(f"{len(pipelines)} pipelines are watched")
    topics = [pipeline.source.topics[0] for pipeline in pipelines]
    load = Load(world.bootstrap_servers, topics, 60 * options.events_per_second / len(topics), options.seed)
    load.start()
    third = options.minutes * 60 / 3
    for kill in (lambda: kill_scheduler(installed), lambda: kill_worker(pipelines), None):
        wait_seconds(third)
        say(f"{len(load.sent):,} events; {progress(installed, pipelines)}")
        if kill is not None and not options.calm:
            say(kill())
    load.enough.set()
    load.join()
    say(f"{len(load.sent):,} events sent; waiting until all of them are applied")
    wait_until_read(world, pipelines, 2400)
    say(f"{progress(installed, pipelines)}; nothing waits")
    wrong = differing(world, pipelines, load)
    audits = json.loads(installed.lakemark("audit", "--json"))
    findings = [f for audit in audits for f in audit["findings"]]
    say(f"tables that differ from the oracle: {', '.join(wrong) or 'none'}; audit findings: {findings or 'none'}")
    for name, seconds in latencies(world, pipelines, load).items():
        say(f"{name}: {spread(seconds)}")
    return not wrong and not findings


def kill_scheduler(installed: Installed) -> str:
    process = psutil.Process(installed.stack.service_pid("airflow-scheduler"))
    process.send_signal(signal.SIGKILL)
    return f"killed the scheduler (process {process.pid})"


def kill_worker(pipelines: list[Pipeline]) -> str:
    """Kills the process that supervises a merging task, and with it the task."""
    job = wait_until(lambda: next(filter(None, map(job_of, pipelines)), None), 120)
    task = job.parent()
    worker = task.parent()
    for process in (worker, task):
        process.send_signal(signal.SIGKILL)
    return f"killed a worker and its task (processes {worker.pid}, {task.pid})"


def progress(installed: Installed, pipelines: list[Pipeline]) -> str:
    """Batches of all pipelines, and whether all of them get their turn."""
    batches = [installed.world.coordinator(p).ledger.state().committed_through + 1 for p in pipelines]
    return f"{sum(batches)} batches committed, {min(batches)} to {max(batches)} of a pipeline"


if __name__ == "__main__":
    sys.exit(main())
