"""`make bench`: Lakemark against what its users would pick instead, as ratios of medians within one run.

All contenders of a work take turns, one batch each per round, in another order every round; rounds that warm up are
thrown away, and in the end their tables must hold the same rows. They share one JVM, except where that is the point.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import chain
from pathlib import Path

import psutil
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from include.installation.spark_server import driver_options
from include.installation.stack import Stack
from include.settings import Settings
from spark_jobs.engine.session import prepare_own_driver
from tests.bench.contenders.by_hand import (
    ForeachBatch,
    PlainParquet,
    StreamingAppend,
    TunedForeachBatch,
    TunedPlainParquet,
    TunedStreamingAppend,
)
from tests.bench.contenders.contender import Arena, Contender
from tests.bench.contenders.delta_rs import DeltaRs
from tests.bench.contenders.hudi.contender import HudiUpsert
from tests.bench.contenders.lakemark import (
    Lakemark,
    LakemarkBySpark,
    LakemarkMergeEvery,
    LakemarkOnS3,
    LakemarkOnS3BySpark,
    LakemarkSubmitted,
)
from tests.bench.contenders.with_everything import ForeachBatchWithEverything, LakemarkWithEverything
from tests.bench.feeds import AvroOrders, Feed, Flights, JsonOrders
from tests.bench.on_s3 import OnS3, slow_store
from tests.bench.orders import Orders
from tests.bench.report import add_to_report, figures
from tests.conftest import LAKES, stack_in, world_in
from tests.support.schema_registry import RegistryServer, schema_registry

PARTITIONS = 4
_MERGES = (Lakemark, LakemarkBySpark, ForeachBatch, TunedForeachBatch, DeltaRs)
_ALL_MERGES = (*_MERGES, HudiUpsert)
_ON_BOTH_LAKES = (Lakemark, LakemarkOnS3, LakemarkBySpark, LakemarkOnS3BySpark)
_APPENDS = (PlainParquet, TunedPlainParquet, StreamingAppend, TunedStreamingAppend)


@dataclass(frozen=True)
class Work:
    """Batches of one size into a table of one size."""

    batch: int  # events
    rows: int  # of the table before
    is_local: bool  # changes of recent orders, else of any
    contenders: tuple[type[Contender], ...]
    rounds: int
    warm_ups: int = 2
    merges_rarely: bool = False  # not every round has the MERGE: what counts is the mean, not the median
    kind: type[Feed] = JsonOrders
    more: str = ""  # what each batch does beside the merge

    @property
    def title(self) -> str:
        if self.kind is Flights:
            return f"{_short(self.batch)} changes of real flights into a table that begins empty"
        keys, avro = "recent" if self.is_local else "any", " in Avro" if self.kind is AvroOrders else ""
        return f"{_short(self.batch)} changes{avro} of {keys} orders into {_short(self.rows)} rows{self.more}"

    def feed(self, registries: Registries) -> Feed:
        if self.kind is Flights:
            return Flights()
        orders = Orders(self.rows, self.is_local)
        return AvroOrders(orders, registries()) if self.kind is AvroOrders else JsonOrders(orders)


def _short(number: int) -> str:
    return f"{number / 1_000_000:g}M" if number >= 500_000 else f"{number // 1000}k"


Registries = Callable[[], RegistryServer]  # started by the first who asks
Taken = dict[str, list[float]]  # by each contender, by round

WORKS = {
    "8k": Work(8_000, 500_000, True, (*_ALL_MERGES, *_APPENDS), rounds=7, warm_ups=8),
    "50k": Work(50_000, 500_000, True, (*_MERGES, *_APPENDS), rounds=5),
    "1k": Work(1_000, 500_000, True, (*_MERGES, *_APPENDS), rounds=5),
    "200k": Work(200_000, 500_000, True, (*_ALL_MERGES, *_APPENDS), rounds=5),
    "8k-avro": Work(8_000, 500_000, True, (*_MERGES, *_APPENDS), rounds=5, kind=AvroOrders),
    "200k-avro": Work(200_000, 500_000, True, (*_MERGES, *_APPENDS), rounds=4, kind=AvroOrders),
    "flights": Work(200_000, 0, True, (*_ALL_MERGES, *_APPENDS), rounds=4, warm_ups=1, kind=Flights),
    "8k-5M": Work(8_000, 5_000_000, True, _ALL_MERGES, rounds=5),
    "8k-5M-any": Work(8_000, 5_000_000, False, _ALL_MERGES, rounds=5),
    "200k-5M-any": Work(200_000, 5_000_000, False, _ALL_MERGES, rounds=3),
    "everything": Work(
        8_000,
        500_000,
        True,
        (LakemarkWithEverything, ForeachBatchWithEverything),
        rounds=6,
        warm_ups=4,
        more=", with archive, quarantine and history",
    ),
    "submit": Work(8_000, 500_000, True, (Lakemark, LakemarkSubmitted), rounds=4, warm_ups=20),
    "8k-lazy": Work(
        8_000,
        500_000,
        True,
        (LakemarkMergeEvery, DeltaRs, StreamingAppend, TunedStreamingAppend),
        rounds=20,
        warm_ups=10,
        merges_rarely=True,
    ),
    "drain": Work(
        200_000,
        500_000,
        True,
        (Lakemark, LakemarkMergeEvery, ForeachBatch, TunedForeachBatch),
        rounds=10,
        warm_ups=10,
        merges_rarely=True,
    ),
}
LARGE_WORKS = {
    "8k-50M-any": Work(8_000, 50_000_000, False, _MERGES, rounds=5, warm_ups=1),
    "1M-5M-any": Work(1_000_000, 5_000_000, False, _MERGES, rounds=5, warm_ups=1),
    "8k-50M": Work(8_000, 50_000_000, True, _MERGES, rounds=4),
    "200k-50M-any": Work(200_000, 50_000_000, False, _MERGES, rounds=2, warm_ups=1),
}


def main() -> int:
    known = {**WORKS, **LARGE_WORKS}
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", choices=[[], *known], help="which ones; all but the large ones if none")
    parser.add_argument("--large", action="store_true", help="the large ones")
    parser.add_argument("--rounds", type=int, help="measured rounds, instead of each work's own number")
    parser.add_argument("--lake", choices=LAKES, default="local", help="s3: our own contenders on both kinds of lakes")
    parser.add_argument("--latency-ms", type=float, default=10, help="s3: what a proxy adds to every request")
    text = "writes JSON and plots there, beside those of other works"
    parser.add_argument("--report", type=Path, metavar="FOLDER", help=text)
    options = parser.parse_args()
    names = options.works or list(LARGE_WORKS if options.large else WORKS)
    home = Path(tempfile.mkdtemp(prefix="lakemark-bench-"))
    stack = stack_in(home).with_lake(options.lake)
    ends = ExitStack()
    registries = cache(lambda: ends.enter_context(schema_registry(stack.settings, home / "registry")))
    try:
        stack.up(say, ("kafka", "s3") if options.lake == "s3" else ("kafka",))
        proxy = ends.enter_context(slow_store(stack, options.latency_ms)) if options.lake == "s3" else None
        spark = session(stack.settings)
        for name in names:
            changes = {"contenders": _ON_BOTH_LAKES} if proxy else {}
            work = dataclasses.replace(known[name], **changes, **({"rounds": options.rounds} if options.rounds else {}))
            found = measured(name, work, work.feed(registries), spark, stack, folder=home / name, proxy=proxy)
            shutil.rmtree(home / name)
            show(found)
            if options.report:
                add_to_report(options.report, machine(), found)
        spark.stop()
    finally:
        ends.close()
        stack.down()
        shutil.rmtree(home, ignore_errors=True)
    return 0


def measured(
    name: str, work: Work, feed: Feed, spark: SparkSession, stack: Stack, folder: Path, proxy: str | None = None
) -> dict:
    """What each contender took, by round. Args: proxy: the address of a store for a lake."""
    say(f"{name}: {work.title}")
    world = world_in(folder, stack)
    topic = world.topic(PARTITIONS)
    on_s3 = None if proxy is None else OnS3(world_in(folder / "s3", stack, "s3", AWS_ENDPOINT_URL_S3=proxy), proxy)
    arena = Arena(spark, world, topic, PARTITIONS, folder / "tables", work.batch, work.rows, feed, on_s3)
    contenders = [kind.entering(arena) for kind in work.contenders]
    with ExitStack() as ends:
        for contender in contenders:
            ends.callback(contender.close)
            contender.lay()
        taken = _rounds(contenders, work, arena)
        _same_rows(contenders)
    return {
        "name": name,
        "title": work.title,
        "on": date.today().isoformat(),
        **{field: getattr(work, field) for field in ("batch", "rows", "is_local", "rounds", "warm_ups")},
        "figure": "mean" if work.merges_rarely else "median",
        **taken,
        "facts": {c.name: c.facts[-work.rounds :] for c in contenders if c.facts},
    }


def _rounds(contenders: list[Contender], work: Work, arena: Arena) -> dict[str, Taken]:
    """Seconds, CPU seconds and megabytes written to tables, in the rounds that count."""
    seconds: Taken = {c.name: [] for c in contenders}
    cpu: Taken = {c.name: [] for c in contenders}
    written: Taken = {c.name: [] for c in contenders}
    for turn in range(work.warm_ups + work.rounds):
        send(arena.feed.events(work.batch), arena.bootstrap_servers, arena.topic)
        shift = turn % len(contenders)
        for contender in (*contenders[shift:], *contenders[:shift]):  # nobody is always first
            if turn < work.warm_ups:
                say(f"  warm-up {turn}: {contender.name} {contender.warm_up():.2f} s")
                continue
            bytes_before, before = contender.bytes_there(), cpu_seconds()
            seconds[contender.name].append(round(contender.run(), 3))
            cpu[contender.name].append(round(cpu_seconds() - before, 3))
            written[contender.name].append(round((contender.bytes_there() - bytes_before) / 1e6, 3))
            say(f"  round {turn - work.warm_ups}: {contender.name} {seconds[contender.name][-1]:.2f} s")
    return {"seconds": seconds, "cpu_seconds": cpu, "megabytes": written}


def _same_rows(contenders: Iterable[Contender]) -> None:
    digests: dict[bool, dict[str, tuple[int, ...]]] = {True: {}, False: {}}
    for contender in contenders:
        digests[contender.merges][contender.name] = contender.digest()
    for of_kind in digests.values():
        assert len(set(of_kind.values())) <= 1, f"the tables differ: {of_kind}"


def send(events: Iterable[tuple[int, bytes]], bootstrap_servers: str, topic: str) -> None:
    options = {"linger.ms": 50, "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **options})
    for n, (key, value) in enumerate(events):
        producer.produce(topic, value, str(key), partition=key % PARTITIONS)
        if n % 10_000 == 0:
            producer.poll(0)
    left = producer.flush()
    assert not left, f"{left} events were not sent"


def session(settings: Settings) -> SparkSession:
    prepare_own_driver(settings)
    builder = SparkSession.builder.appName("bench").master("local[*]")
    options = {**driver_options(settings.jars, settings.home, settings.lake), "spark.log.level": "ERROR"}
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def cpu_seconds() -> float:
    """CPU seconds of this process, the JVM, and all children that have ended; Kafka is somebody else's child."""
    living = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = 0.0
    for process in living:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found += times.user + times.system
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found + ended.ru_utime + ended.ru_stime


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def show(found: dict) -> None:
    print(f"\n{found['title']}, {found['rounds']} rounds, {found['figure']}s")
    for name, seconds, cpu, megabytes, of_it in figures(found):
        told = f"{seconds:7.2f} s  {cpu:7.2f} s of CPU  {megabytes:8.2f} MB written"
        print(f"  {name:42} {told}   lakemark takes {of_it:5.2f} of it", flush=True)
    for name, facts in found["facts"].items():
        middle = {fact: statistics.median(one.get(fact, 0) for one in facts) for fact in sorted({*chain(*facts)})}
        print(f"  {name:42} {', '.join(f'{fact} {number:g}' for fact, number in middle.items())}", flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
