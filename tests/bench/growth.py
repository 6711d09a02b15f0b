"""`make bench-growth`: what a batch costs as its table grows a hundred times, and as small files pile up.

The same changes of recent orders (5,000 orders old on average, whatever the table's size) into tables of several sizes,
batch by batch in turns, in one JVM. Then one table takes a hundred batches, is kept in shape, and takes some more.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from spark_jobs.commands.maintenance import Maintenance
from tests.bench.__main__ import PARTITIONS, say, send, session
from tests.bench.contenders.contender import Arena
from tests.bench.contenders.lakemark import Lakemark
from tests.bench.feeds import JsonOrders
from tests.bench.orders import Orders
from tests.conftest import stack_in, world_in

_AGE = 5_000
_BATCH = 8_000


@dataclasses.dataclass
class Contest:
    """A table of one size, and its stream."""

    lakemark: Lakemark

    def round(self) -> float:
        arena = self.lakemark.arena
        send(arena.feed.events(_BATCH), arena.bootstrap_servers, arena.topic)
        return self.lakemark.run()

    @property
    def files(self) -> int:
        return len(DeltaTable(self.lakemark.table).file_uris())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, 5_000_000, 50_000_000])
    parser.add_argument("--rounds", type=int, default=7, help="measured, of every size")
    parser.add_argument("--pile", type=int, default=100, help="batches without upkeep, into the first table (100)")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lakemark-bench-"))
    stack = stack_in(home)
    try:
        stack.up(say, ("kafka",))
        spark = session(stack.settings)
        contests = {rows: _contest(spark, stack, home, rows) for rows in options.rows}
        print(json.dumps({"growth": _growth(contests, options.rounds)}), flush=True)
        print(json.dumps({"small_files": _pile(contests[options.rows[0]], options.pile)}), flush=True)
        spark.stop()
    finally:
        stack.down()
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _contest(spark: SparkSession, stack: Stack, home: Path, rows: int) -> Contest:
    world = world_in(home / str(rows), stack)
    topic, folder = world.topic(PARTITIONS), home / str(rows) / "tables"
    feed = JsonOrders(Orders(rows, True, age=_AGE))
    lakemark = Lakemark.entering(Arena(spark, world, topic, PARTITIONS, folder, _BATCH, rows, feed))
    lakemark.lay()
    return Contest(lakemark)


def _growth(contests: dict[int, Contest], rounds: int, warm_ups: int = 3) -> dict[str, object]:
    seconds: dict[int, list[float]] = {rows: [] for rows in contests}
    for turn in range(warm_ups + rounds):
        for rows, contest in list(contests.items())[:: -1 if turn % 2 else 1]:
            took = contest.round()
            say(f"  round {turn}: {rows:,} rows {took:.2f} s")
            if turn >= warm_ups:
                seconds[rows].append(round(took, 3))
    medians = {rows: statistics.median(taken) for rows, taken in seconds.items()}
    smallest = medians[min(medians)]
    return {"seconds": seconds, "times_the_smallest": {rows: round(m / smallest, 2) for rows, m in medians.items()}}


def _pile(contest: Contest, batches: int, around: int = 5) -> dict[str, object]:
    """Medians of the first and last batches of a pile, and of the first after the upkeep."""
    files = [contest.files]
    taken = []
    for number in range(batches):
        taken.append(contest.round())
        say(f"  batch {number}: {taken[-1]:.2f} s, {contest.files} files")
    files.append(contest.files)
    lakemark = contest.lakemark
    with lakemark.opened() as spark:
        Maintenance(lambda: spark, lakemark.arena.settings, lakemark.pipeline, "test", lambda fact: None).run()
    files.append(contest.files)
    after = [contest.round() for _ in range(around)]
    spans = {"first": taken[:around], "last": taken[-around:], "after_upkeep": after}
    return {
        "batches": batches,
        "files": dict(zip(("before", "piled", "after_upkeep"), files, strict=True)),
        "seconds": {name: round(statistics.median(span), 2) for name, span in spans.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
