"""`make chaos-smoke`: kills the driver at a random moment of any batch, twenty times in a row, and compares the end.

    python -m tests.faults.chaos_smoke [--rounds N] [--seed S]

The job runs as a driver of its own (Python and its JVM), until caught up; its whole process group is killed with
SIGKILL while a batch is under way. The seed decides the records and the moments; it is printed, and `--seed` repeats
them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from include.audit import audit
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.conftest import settings_in
from tests.support.world import World, as_dict, newest_by_key

RECORDS, KEYS, RECORDS_PER_BATCH = 24_000, 3_000, 600
LONGEST_SECONDS = 6.0  # from a batch's plan to the kill: longer than a warm batch takes, so that all of it is hit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print(f"seed {options.seed}, {options.rounds} kills")
    with tempfile.TemporaryDirectory(prefix="lakemark-chaos-") as folder:
        home = Path(folder)
        (home / "pipelines").mkdir()
        stack = Stack.of(settings_in(home))
        try:
            stack.up(print, ("kafka",))
            places = {"LAKEMARK_PIPELINES": str(home / "pipelines"), "LAKEMARK_SPARK_MASTER": "local[2]"}
            world = World(settings_in(home, **places, **stack.addresses(("kafka",))), stack.broker.bootstrap_servers)
            return _rounds(world, chance, options.rounds)
        finally:
            stack.down()


def _rounds(world: World, chance: random.Random, rounds: int) -> int:
    topic = world.topic(partitions=4)
    limits = {"limits": {"records_per_batch_max": RECORDS_PER_BATCH}}
    pipeline = world.pipeline(topic, source=limits, change={"delete_when": "op = 'd'"})
    values = [
        {"id": chance.randrange(KEYS), "seq": chance.randrange(10**6), "name": f"n{n}", "op": chance.choice("uuuud")}
        for n in range(RECORDS)
    ]
    world.produce(topic, values, 4)
    for number in range(1, rounds + 1):
        told = _killed_run(world, pipeline, chance.randrange(3), chance.uniform(0, LONGEST_SECONDS))
        state = world.steps(pipeline).ledger.state()
        print(f"kill {number:2}: {told}; batches {len(state.batches)}", flush=True)
    last = subprocess.run(_command(pipeline), cwd=PROJECT_ROOT, env=_environment(world), stdout=subprocess.DEVNULL)
    state = world.steps(pipeline).ledger.state()
    expected = {i: v for i, v in newest_by_key(world.sent).items() if v["op"] != "d"}
    equal = as_dict(world.rows(pipeline)) == expected
    findings = audit(world.settings, pipeline).findings
    attempts = sum(len(record.attempts) for record in state.batches)
    print(
        f"{len(state.batches)} batches, {attempts} attempts, {len(expected)} rows; "
        f"table {'equals' if equal else 'DIFFERS FROM'} the oracle; {len(findings)} audit findings"
    )
    for finding in findings:
        print(f"  {finding}")
    return 0 if equal and not findings and last.returncode == 0 else 1


def _killed_run(world: World, pipeline: Pipeline, batches_before: int, delay: float) -> str:
    """Runs the job, lets some batches pass, and kills it `delay` seconds after the next one is planned."""
    job = subprocess.Popen(
        _command(pipeline),
        cwd=PROJECT_ROOT,
        env=_environment(world),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert job.stdout is not None
    phase, planned = "start", 0
    killer: threading.Timer | None = None
    began = time.monotonic()
    for line in job.stdout:
        fact = json.loads(line) if line.startswith("{") else {}
        phase = fact.get("progress", phase)
        planned += fact.get("progress") == "planned"
        if planned > batches_before and killer is None:
            killer = threading.Timer(delay, os.killpg, (job.pid, signal.SIGKILL))
            killer.start()
    job.wait()
    if killer is None or job.returncode != -signal.SIGKILL:
        return f"the job ended by itself with {job.returncode} before the kill"
    return f"in phase {phase} of the run's batch {planned}, after {time.monotonic() - began:.1f} s"


def _command(pipeline: Pipeline) -> list[str]:
    job = [sys.executable, "-m", "spark_jobs.merge_job", "--pipeline", pipeline.name]
    return [*job, "--until-caught-up", "--master", "local[2]", "--started-by", "chaos"]


def _environment(world: World) -> dict[str, str]:
    return world.settings.child_environment()


if __name__ == "__main__":
    sys.exit(main())
