"""`make bench-fleet`: where the CPU of an installation goes while many small pipelines run, and how long records wait.

    python -m tests.bench.fleet --pipelines 5 --per-minute 600 --minutes 4

One Airflow does it all, one work after the other: nothing; a DAG of three Python tasks that do nothing (the floor); the
pipelines under a steady load; a DAG that runs a `foreachBatch` job by spark-submit. CPU seconds are those of all
processes of the installation. `net` is without what the same seconds cost when there is nothing to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from include.installation.airflow_home import BUNDLES
from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import find_java
from include.installation.spark_server import driver_options
from include.lake.ledger import Ledger
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.bench.fleet.account import CPU_WATCH, Account, Window
from tests.support.installed import Installed
from tests.support.load import Load, differing, latencies, spread, wait_seconds, wait_until_read
from tests.support.sink_servers import postgres_server
from tests.support.waiting import wait_until

_DAGS = Path(__file__).with_name("dags")
_BY_HAND_JOB = Path(__file__).with_name("by_hand_job.py")
_LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
_BUNDLES = [*BUNDLES, {"name": "bench", "classpath": _LOCAL, "kwargs": {"path": str(_DAGS)}}]
_DRAIN_SECONDS = 2400
_BETWEEN_LOOKS = 20.0  # seconds: a look at all ledgers takes a core for about one
_GROUP = "fleet"
_GROUP_DAG = f"lakemark_group__{_GROUP}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", default=["idle", "floor", "fleet", "by-hand"])
    parser.add_argument("--pipelines", type=int, default=5)
    parser.add_argument("--per-minute", type=float, default=600, help="records to each pipeline")
    parser.add_argument("--tasks", choices=["one", "three"], default="three", help="of a run")
    parser.add_argument("--group", action="store_true", help="all pipelines are in one group")
    parser.add_argument("--postgresql", action="store_true", help="Airflow's database is PostgreSQL, not SQLite")
    parser.add_argument(
        "--recycle-mb", type=int, help="the Spark server makes way for a fresh one above so much memory"
    )
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--records", type=int, default=500, help="start a run if so many records wait")
    parser.add_argument("--seconds", type=float, default=5, help="or if one has waited so long")
    parser.add_argument("--floor-pause", type=float, default=6, help="seconds between two runs that do nothing")
    parser.add_argument("--runs", type=int, default=20, help="that do nothing, and a quarter of them by hand")
    parser.add_argument("--keep", action="store_true", help="keep the installation's folder")
    options = parser.parse_args()
    with ExitStack() as stack:
        variables, database = {}, None
        if options.postgresql:
            server = stack.enter_context(postgres_server(max_connections="100"))
            url = f"postgresql+psycopg://lakemark@127.0.0.1:{server.port}/postgres"
            variables["LAKEMARK_AIRFLOW_DATABASE"] = url
            database = server.process and server.process.pid
        if options.recycle_mb is not None:
            variables["LAKEMARK_SPARK_RECYCLE_MB"] = str(options.recycle_mb)
        return _measure(options, variables, database)


def _measure(options: argparse.Namespace, variables: Mapping[str, str], database: int | None) -> int:
    home = Path(tempfile.mkdtemp(prefix="lakemark-fleet-"))
    installed = Installed(
        home / "installed",
        PYTHONPATH=os.pathsep.join(map(str, (CPU_WATCH, PROJECT_ROOT))),
        LAKEMARK_TEST_CPU=str(home / "cpu.jsonl"),
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(_BUNDLES),
        LAKEMARK_BENCH_BY_HAND=str(home / "by_hand.json"),
        **variables,
    )
    try:
        return Bench(installed, Account(installed.stack, home / "cpu.jsonl", database), home, options).run()
    finally:
        installed.stack.down()
        if not options.keep:
            shutil.rmtree(home, ignore_errors=True)


@dataclass
class Bench:
    installed: Installed
    account: Account
    home: Path
    options: argparse.Namespace

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.idle: Window | None = None
        self.load: Load | None = None  # the newest one on the pipelines' topics

    def run(self) -> int:
        options = self.options
        wait_until(lambda: all(self.installed.api.dag_exists(name) for name in ("do_nothing", "by_hand")), 120)
        pipelines = [self._pipeline(n) for n in range(options.pipelines)]
        for pipeline in pipelines:  # Airflow must have parsed them all: on SQLite nothing else writes in that time
            wait_until(partial(self.installed.api.dag_exists, f"lakemark__{pipeline.name}"), 60 + len(pipelines))
        if options.group:
            wait_until(partial(self.installed.api.dag_exists, _GROUP_DAG), 60)
            self.installed.api.unpause(_GROUP_DAG)
        for pipeline in [] if options.group else pipelines:
            self.installed.dag(pipeline)
        self._say(f"{len(pipelines)} pipelines are watched")
        self._drained(pipelines)  # each has a first run, which records where it begins
        self._say("each has had its first run")
        wait_seconds(30)  # what was parsed anew has settled
        works: dict[str, Callable[[], bool]] = {
            "idle": self._do_nothing,
            "floor": self._floor,
            "fleet": lambda: self._fleet(pipelines),
            "restart": lambda: self._restart(pipelines),
            "by-hand": self._by_hand,
        }
        right = [works[name]() for name in options.works]
        return 0 if all(right) else 1

    def _pipeline(self, number: int) -> Pipeline:
        world, options = self.installed.world, self.options
        schedule = {"on_data": {"records": options.records, "seconds": options.seconds}}
        source = {"limits": {"records_per_batch_max": 100_000}}
        shown = {"group": _GROUP} if options.group else {"tasks": options.tasks}
        return world.pipeline(world.topic(), f"fleet_{number:03}", schedule=schedule, source=source, **shown)

    def _do_nothing(self) -> bool:
        with self.account.window() as window:
            wait_seconds(60)
        self.idle = window
        self._tell("idle", window, runs=None, records=None)
        return True

    def _floor(self) -> bool:
        self._api_runs("do_nothing", 2, 0)  # the first ones import what all others find
        with self.account.window() as window:
            self._api_runs("do_nothing", self.options.runs, self.options.floor_pause)
        self._tell("floor: three Python tasks that do nothing", window, runs=self.options.runs, records=None)
        return True

    def _by_hand(self) -> bool:
        world = self.installed.world
        topic = world.topic()
        settings, table = world.settings, self.home / "by_hand"
        options = driver_options(settings.jars, self.home, settings.lake)
        command = [
            *("env", f"JAVA_HOME={find_java(settings.java, settings.home / 'java').home}"),
            *(str(pyspark_home() / "bin" / "spark-submit"), "--master", "local[*]"),
            *(part for key, value in options.items() for part in ("--conf", f"{key}={value}")),
            *("--jars", ",".join(map(str, jar_paths(settings.jars, "spark")))),
            *(str(_BY_HAND_JOB), world.bootstrap_servers, topic, str(table)),
        ]
        (self.home / "by_hand.json").write_text(json.dumps(command))
        load = Load(world.bootstrap_servers, [topic], self.options.per_minute, seed=2)
        load.start()
        runs = max(2, self.options.runs // 4)
        self._api_runs("by_hand", 1, 0)
        with self.account.window() as window:
            for _ in range(runs):
                self._api_runs("by_hand", 1, 0)
        load.enough.set()
        load.join()
        self._tell("by hand: foreachBatch by spark-submit", window, runs=runs, records=None)
        return True

    def _api_runs(self, dag_id: str, runs: int, pause: float) -> None:
        api, begun = self.installed.api, []
        for _ in range(runs):
            begun.append(api.trigger(dag_id))
            wait_seconds(pause)
        for run_id in begun:
            assert self.installed.ended(dag_id, run_id) == "success"

    def _fleet(self, pipelines: list[Pipeline]) -> bool:
        world, options = self.installed.world, self.options
        topics = [pipeline.source.topics[0] for pipeline in pipelines]
        load = self._load(topics)
        load.first_records(lambda: self._drained(pipelines))
        runs_before = self._runs(pipelines)
        with self.account.window() as window:
            load.start()
            wait_seconds(options.minutes * 60)
            load.enough.set()
            load.join()
            self._drained(pipelines)
        runs = self._runs(pipelines) - runs_before
        wrong = differing(world, pipelines, load)
        what = f"{len(pipelines)} pipelines, {options.per_minute:g} records a minute each"
        self._tell(what, window, runs, len(load.acknowledged))
        for name, seconds in latencies(world, pipelines, load).items():
            self._say(f"{name}: {spread(seconds)}")
        self._say(f"tables that differ from the oracle: {', '.join(wrong) or 'none'}")
        spark_said = (self.installed.stack.settings.logs / "spark.log").read_text()
        made_way = spark_said.count("for a fresh server to take its place")
        self._say(f"the Spark server has made way for a fresh one {made_way} times")
        return not wrong

    def _restart(self, pipelines: list[Pipeline]) -> bool:
        """From the death of the Spark server under load to the next batch that is committed."""
        world, stack = self.installed.world, self.installed.stack
        topics = [pipeline.source.topics[0] for pipeline in pipelines]
        load = self._load(topics)
        load.start()
        ledgers = [world.coordinator(pipeline).ledger for pipeline in pipelines]
        found = []
        for _ in range(3):
            wait_seconds(30)
            before = stack.service_pid("spark")
            assert before is not None
            os.kill(before, signal.SIGKILL)
            killed = datetime.now(UTC)
            wait_until(lambda before=before: stack.service_pid("spark") not in (None, before), 60)
            committed = wait_until(lambda killed=killed: _committed_after(ledgers, killed), 300, pause=_BETWEEN_LOOKS)
            found.append((committed - killed).total_seconds())
            self._say(f"Spark was killed; the next batch was committed after {found[-1]:.1f} s")
        load.enough.set()
        load.join()
        self._drained(pipelines)
        wrong = differing(world, pipelines, load)
        self._say(f"tables that differ from the oracle: {', '.join(wrong) or 'none'}")
        return not wrong

    def _load(self, topics: list[str]) -> Load:
        """On the pipelines' topics. Only one at a time."""
        before = self.load.sent if self.load is not None else ()
        self.load = Load(self.installed.world.bootstrap_servers, topics, self.options.per_minute, seed=1, before=before)
        return self.load

    def _drained(self, pipelines: list[Pipeline]) -> None:
        wait_until_read(self.installed.world, pipelines, _DRAIN_SECONDS)
        api = self.installed.api
        dags = [_GROUP_DAG] if self.options.group else [f"lakemark__{p.name}" for p in pipelines]
        wait_until(lambda: not any(map(api.unfinished_runs, dags)), _DRAIN_SECONDS)

    def _runs(self, pipelines: list[Pipeline]) -> int:
        """The DAG runs so far; of a group, the turns in which something has landed."""
        if self.options.group:
            ledgers = (self.installed.world.coordinator(pipeline).ledger for pipeline in pipelines)
            return sum(len(ledger.state().batches) for ledger in ledgers)
        return sum(self.installed.api.count_runs(f"lakemark__{p.name}") for p in pipelines)

    def _tell(self, name: str, window: Window, runs: int | None, records: int | None) -> None:
        idle = self.idle.cores if self.idle else 0.0
        net = window.total - idle * window.seconds
        self._say(f"{name}: {window.seconds:.0f} s, {window.total:.1f} CPU s ({window.cores:.2f} cores), net {net:.1f}")
        if runs:
            self._say(f"  {runs} runs: {window.total / runs:.2f} CPU s each, net {net / runs:.2f}")
        if records:
            each = 1000 / records
            self._say(f"  {records:,} records: {window.total * each:.1f} CPU s per 1,000, net {net * each:.1f}")
        per, of = runs or window.seconds / 60, "a run" if runs else "a minute"
        heads = ("CPU s", of, "imports", "ended", "MB first", "last", "most")
        self._say(f"  {'':28}" + "".join(f"{head:>9}" for head in heads))
        for part, seconds in window.parts.most_common():
            memory = "".join(f"{megabytes:9.0f}" for megabytes in window.memory_of(part))
            figures = f"{seconds:9.2f}{seconds / per:9.2f}{window.imports[part]:9.2f}{window.ended[part]:9}{memory}"
            self._say(f"  {part:28}{figures}")

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.0f} s  {text}", flush=True)


def _committed_after(ledgers: list[Ledger], moment: datetime) -> datetime | None:
    """When the first batch was committed of an attempt that began after that moment."""
    found = []
    for ledger in ledgers:
        rows = [row for row in ledger.rows() if row["recorded_at"] > moment]
        begun = {row["batch_id"] for row in rows if row["event"] == "attempt_started"}
        commits = [row["details"] for row in rows if row["event"] == "committed" and row["batch_id"] in begun]
        found += [datetime.fromisoformat(commit["committed_at"]) for commit in commits]
    return min(found, default=None)


if __name__ == "__main__":
    sys.exit(main())
