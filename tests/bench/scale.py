"""`make bench-scale`: nothing is bound to the driver.

Batches of growing size on a real standalone cluster of several workers, each by a spark-submit with a driver of bounded
heap. What the driver holds is what its garbage collector leaves (its own log); what the executors held, Spark's event
log. Memory of the driver must not grow with the batch, and every row has to be there.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from include.control.coordinator import Coordinator
from include.lake.table_log import TableLog
from include.pipeline_file import Pipeline
from include.settings import Settings
from tests.bench.__main__ import PARTITIONS, say, send
from tests.bench.feeds import JsonOrders
from tests.bench.orders import Orders
from tests.conftest import stack_in, world_in
from tests.support.spark_cluster import standalone_cluster
from tests.support.world import World

_PAUSE = re.compile(r"Pause (?:Young|Full|Remark).*?(\d+)M->(\d+)M\((\d+)M\)")
_MIB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--workers", type=int, default=2, help="each with an executor of one core")
    parser.add_argument("--executor-memory", default="4g")
    parser.add_argument("--driver-memory", default="1g")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lakemark-bench-"))
    stack = stack_in(home)
    jobs = {
        "spark.cores.max": str(options.workers),
        "spark.executor.cores": "1",
        "spark.executor.memory": options.executor_memory,
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": f"-XX:+UseG1GC -Xlog:gc:file={home / 'gc.log'}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(home / "events"),
        "spark.eventLog.logStageExecutorMetrics": "true",
        "spark.local.dir": str(home / "scratch"),
    }
    # Executors of one core are spread over the workers; one of these has the driver as well.
    worker = ("--cores", "2", "--memory", f"{_gib(options.executor_memory) + _gib(options.driver_memory) + 1}g")
    try:
        stack.up(say, ("kafka",))
        (home / "events").mkdir()
        world = world_in(home / "world", stack)
        with standalone_cluster(world.settings, home / "cluster", options.workers, worker, jobs) as cluster:
            world.settings = Settings.from_environment(world.settings.child_environment(**cluster))
            for changes in options.changes:
                print(json.dumps(_measured(world, home, changes)), flush=True)
    finally:
        stack.down()
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _gib(memory: str) -> int:
    return int(memory.removesuffix("g"))


def _measured(world: World, home: Path, changes: int) -> dict[str, object]:
    """One batch of a topic of its own into a table of its own."""
    topic, feed = world.topic(PARTITIONS), JsonOrders(Orders(changes, is_local=False))
    pipeline = world.pipeline(
        topic,
        f"scale_{changes}",
        source={**feed.source, "limits": {"records_per_batch_max": changes}},
        change={"keys": list(feed.keys), "order_by": [feed.order]},
        target={"table": f"lake://orders/scale_{changes}", "cluster_by": [feed.cluster_by]},
    )
    say(f"{changes:,} changes: sending")
    send(feed.events(changes), world.bootstrap_servers, topic)
    known = set((home / "events").iterdir())
    (home / "gc.log").unlink(missing_ok=True)
    say(f"{changes:,} changes: merging")
    began = time.monotonic()
    done = world.lakemark("run", pipeline.name, timeout=3600)
    assert done.returncode == 0, done.stderr[-4000:]
    seconds = time.monotonic() - began
    [record] = Coordinator(world.settings, pipeline).ledger.state().batches
    assert record.commit is not None
    assert record.commit.counts is not None
    assert record.commit.counts.read == changes, record.commit.counts
    assert _rows(world, pipeline) == record.commit.counts.applied, "rows are missing"
    left = sorted(after for _, after, _ in _pauses(home / "gc.log"))
    [events] = set((home / "events").iterdir()) - known
    return {
        "changes": changes,
        "seconds": round(seconds, 1),
        "phase_seconds": dict(record.attempts[-1].phase_seconds),
        "rows": record.commit.counts.applied,
        "driver_heap_after_gc_mib": {"median": left[len(left) // 2], "most": left[-1]},
        "executor_heap_mib": max(_peaks(events), default=None),
        "topic_mib": sum(f.stat().st_size for f in home.glob(f"kafka/**/{topic}-*/*.log")) // _MIB,
    }


def _rows(world: World, pipeline: Pipeline) -> int:
    log = TableLog.open(world.coordinator(pipeline).tables.target)
    assert log is not None
    return sum(log.table.get_add_actions(flatten=True).column("num_records").to_pylist())


def _pauses(log: Path) -> Iterator[tuple[int, ...]]:
    """The driver's heap at every pause, in MiB: before, after, size."""
    for line in log.read_text().splitlines():
        if found := _PAUSE.search(line):
            yield tuple(map(int, found.groups()))


def _peaks(events: Path) -> Iterator[int]:
    """What each executor's heap held at most in a stage, in MiB."""
    files = [events] if events.is_file() else sorted(events.glob("events_*"))
    for file in files:
        for line in file.open():
            if '"SparkListenerStageExecutorMetrics"' in line:
                event = json.loads(line)
                if event["Executor ID"] != "driver":
                    yield event["Executor Metrics"]["JVMHeapMemory"] // _MIB


if __name__ == "__main__":
    sys.exit(main())
