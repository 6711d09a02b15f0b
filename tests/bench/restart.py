"""`make bench-restart`: from the death of the Spark server to the first batch that is committed after it.

The supervisor starts the server again, it warms up, and then a batch of orders is planned, merged and settled by a job,
as a task of Airflow does it. The same job with the server as warm as it gets is the measure.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from tests.bench.__main__ import PARTITIONS, send
from tests.bench.feeds import JsonOrders
from tests.bench.orders import Orders
from tests.conftest import stack_in, world_in
from tests.support.waiting import wait_until
from tests.support.world import LAKEMARK, World

_RECORDS, _WARM = 8_000, 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.restart", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=4, help="batches that the server merges before it serves")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakemark-bench-") as folder:
        stack = stack_in(Path(folder), LAKEMARK_SPARK_WARM_UP_BATCHES=str(options.warm_up))
        try:
            stack.up(_say, ("kafka", "spark"))
            _measure(world_in(Path(folder) / "world", stack), stack, options.rounds)
        finally:
            stack.down()
    return 0


def _measure(world: World, stack: Stack, rounds: int) -> None:
    feed, topic = JsonOrders(Orders(500_000, is_local=True)), world.topic(PARTITIONS)
    pipeline = world.pipeline(
        topic,
        source={**feed.source, "limits": {"records_per_batch_max": _RECORDS}},
        change={"keys": list(feed.keys), "order_by": [feed.order]},
    )

    def batch() -> float:
        send(feed.events(_RECORDS), world.bootstrap_servers, topic)
        return _seconds_of_a_run(world, pipeline)

    warm = [batch() for _ in range(_WARM)][_WARM // 2 :]
    print(f"a job on a warm server: {statistics.median(warm):.1f} s", flush=True)
    totals: list[float] = []
    for _ in range(rounds):
        before = stack.service_pid("spark")
        assert before is not None
        os.kill(before, signal.SIGKILL)
        began = time.monotonic()
        wait_until(partial(_is_another, stack, before), 60)
        stack.wait_for("spark", _say)
        serving = time.monotonic() - began
        first = batch()
        totals.append(serving + first)
        second = batch()
        print(f"serving after {serving:.1f} s, the first job {first:.1f} s, the second {second:.1f} s", flush=True)
    print(f"from the death to the first committed batch: median {statistics.median(totals):.1f} s", flush=True)


def _is_another(stack: Stack, before: int) -> bool:
    return stack.service_pid("spark") not in (None, before)


def _seconds_of_a_run(world: World, pipeline: Pipeline) -> float:
    began = time.monotonic()
    run = world.start(LAKEMARK, "run", pipeline.name)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    return time.monotonic() - began


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
