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
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import psutil
from confluent_kafka import Producer

from include.control.lag import Lookout
from include.pipeline_file import Pipeline
from include.protocol.ranges import OffsetRange
from tests.conftest import settings_in
from tests.support.installed import Installed, job_of
from tests.support.spark_cluster import standalone_cluster
from tests.support.topics import Sent
from tests.support.waiting import wait_until
from tests.support.world import as_dict, newest_by_key

ON_DATA = {"on_data": {"records": 500, "seconds": 5}}
KEYS = 500


class Load(threading.Thread):
    """Sends changes to all topics, evenly, until told to stop; knows when each was acknowledged."""

    def __init__(self, servers: str, topics: list[str], events_per_second: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self.topics, self.rate, self.random = topics, events_per_second, Random(seed)
        self.sent: list[Sent] = []
        self.acknowledged: dict[tuple[str, int, int], float] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        seq = 0
        while not self.enough.wait(1.0):
            for topic in self.topics:
                for _ in range(self.rate // len(self.topics)):
                    seq += 1
                    self.send(topic, {"id": self.random.randrange(KEYS), "seq": seq, "name": f"n{seq}", "op": "u"})
            self.producer.flush()

    def send(self, topic: str, value: dict[str, Any]) -> None:
        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            place = (topic, message.partition(), message.offset())
            self.sent.append(Sent(*place, value))
            self.acknowledged[place] = time.time()

        self.producer.produce(topic, json.dumps(value).encode(), partition=value["id"] % 2, on_delivery=delivered)


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
    load = Load(installed.world.bootstrap_servers, topics, options.events_per_second, options.seed)
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
    lookouts = [Lookout(world.settings, pipeline) for pipeline in pipelines]
    wait_until(lambda: all(lookout.look().records == 0 for lookout in lookouts), 2400)
    say(f"{progress(installed, pipelines)}; nothing waits")
    wrong = [p.name for p in pipelines if as_dict(world.rows(p)) != newest_by_key(sent_to(load, p))]
    audits = json.loads(installed.lakemark("audit", "--json"))
    findings = [f for audit in audits for f in audit["findings"]]
    say(f"tables that differ from the oracle: {', '.join(wrong) or 'none'}; audit findings: {findings or 'none'}")
    for name, seconds in figures(installed, pipelines, load).items():
        say(f"{name}: {spread(seconds)}")
    return not wrong and not findings


def wait_seconds(seconds: float) -> None:
    """The load's own time: this is what the run is for."""
    threading.Event().wait(seconds)


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


def sent_to(load: Load, pipeline: Pipeline) -> list[Sent]:
    return [record for record in load.sent if record.topic in pipeline.source.topics]


def progress(installed: Installed, pipelines: list[Pipeline]) -> str:
    """Batches of all pipelines, and whether all of them get their turn."""
    batches = [installed.world.coordinator(p).ledger.state().committed_through + 1 for p in pipelines]
    return f"{sum(batches)} batches committed, {min(batches)} to {max(batches)} of a pipeline"


def figures(installed: Installed, pipelines: list[Pipeline], load: Load) -> dict[str, list[float]]:
    """Seconds, from the ledgers and the producer's acknowledgements."""
    to_row, to_start, to_settled = [], [], []
    for pipeline in pipelines:
        rows = installed.world.coordinator(pipeline).ledger.rows()
        ranges = {r["batch_id"]: r["details"]["ranges"] for r in rows if r["event"] == "planned"}
        started: dict[int, float] = {}
        for row in rows:
            at, batch_id = row["recorded_at"].timestamp(), row["batch_id"]
            if row["event"] == "attempt_started":
                started.setdefault(batch_id, at)
            if row["event"] != "committed":
                continue
            landed = datetime.fromisoformat(row["details"]["committed_at"]).timestamp()
            known = sorted(load.acknowledged[place] for place in places(map(OffsetRange.from_json, ranges[batch_id])))
            to_row += [landed - moment for moment in known]
            to_start.append(started[batch_id] - known[0])
            to_settled.append(at - landed)
    return {
        "record acknowledged to row readable": to_row,
        "oldest record acknowledged to attempt started": to_start,
        "commit to settled": to_settled,
    }


def places(ranges: Iterable[OffsetRange]) -> Iterable[tuple[str, int, int]]:
    return ((r.topic, r.partition, offset) for r in ranges for offset in range(r.start_offset, r.end_offset))


def spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{seconds} s"
    hundredths = statistics.quantiles(seconds, n=100)
    middle, most = hundredths[49], hundredths[94]
    return f"median {middle:.1f} s, 95% below {most:.1f} s, at most {max(seconds):.1f} s ({len(seconds):,})"


if __name__ == "__main__":
    sys.exit(main())
