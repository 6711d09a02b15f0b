"""Kills the workers of a group, whose members are healthy, poisoned, failing and hanging, until enough have died.

    python -m tests.crowd.group_kills --faults 300 --seed 7

Exits 0 only if every table is what the oracle says, every audit is clean, the poisoned records are in the quarantine,
and no healthy member whose worker was left alone has failed, or had its turn later than its neighbours' turns explain.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.draining import TURN_SECONDS
from tests.conftest import stack_in, world_in
from tests.support.installed import jobs_with
from tests.support.silent_server import silent_server
from tests.support.world import World, as_dict, changes, newest_by_key

HEALTHY, HANGING, KEYS, RECORDS_MAX = 5, 3, 300, 400
LATE_SECONDS = 2 * TURN_SECONDS  # a neighbour's turn, and its own
POISON = b"no json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="group_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lakemark-kills-") as folder:
        stack = stack_in(Path(folder) / "services")
        try:
            stack.up(print, ("kafka", "spark"))
            return 0 if Kills(world_in(Path(folder) / "world", stack), options.seed).run(options.faults) else 1
        finally:
            stack.down()


@dataclass
class Kills:
    world: World
    seed: int
    faults: int = 0
    poisoned: int = 0
    became: Counter[str] = field(default_factory=Counter)
    latest: float = 0.0  # seconds until a healthy turn's end

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.silent, address = silent_server()
        limits = {"limits": {"records_per_batch_max": 100}}
        self.healthy = [self._member(f"healthy_{n}", limits) for n in range(HEALTHY)]
        self.poisonous = self._member("poisoned", limits)
        gone = self._member("failing", {"topics": ["no-such-topic"]})
        registry = {"format": "avro", "registry": {"url": f"http://{address}"}}
        self.hanging = [self._member(f"hanging_{n}", registry) for n in range(HANGING)]
        for pipeline in self.hanging:
            self.world.produce(pipeline.source.topics[0], [b"\0\0\0\0\1abc"])
        self.members = [*self.healthy, self.poisonous, gone]

    def _member(self, name: str, source: dict) -> Pipeline:
        return self.world.pipeline(self.world.topic(), name, source=source)

    def run(self, faults: int) -> bool:
        good, began, seq = True, time.monotonic(), 0
        while self.faults < faults and good:
            seq += 1
            for pipeline in (*self.healthy, self.poisonous):
                ids = range(self.random.randrange(KEYS), KEYS + self.random.randrange(RECORDS_MAX))
                self.world.produce(pipeline.source.topics[0], changes(ids, seq))
            bad = self.random.randrange(4)
            self.world.produce(self.poisonous.source.topics[0], [POISON] * bad)
            self.poisoned += bad
            good = self._drain()
            print(
                f"{time.monotonic() - began:6.0f} s  {self.faults} faults; {dict(self.became)}; "
                f"latest healthy turn {self.latest:.0f} s",
                flush=True,
            )
        return good and self._verdict()

    def _drain(self) -> bool:
        names, hanging = ([pipeline.name for pipeline in these] for these in (self.members, self.hanging))
        environment = self.world.settings.child_environment()
        command = [sys.executable, "-m", "tests.support.drained", *names, "--hopeless", *hanging]
        run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        killer = threading.Thread(target=self._kill_while, args=(run,))
        killer.start()
        out, _ = run.communicate(timeout=1200)
        killer.join()
        unexplained = [fact for line in out.splitlines() if not self._is_explained(fact := json.loads(line))]
        return run.returncode == 0 and not unexplained

    def _kill_while(self, run: subprocess.Popen[str]) -> None:
        """Kills, or stops for a while, a process of the run, at random moments."""
        while run.poll() is None:
            threading.Event().wait(self.random.uniform(0.5, 7.0))
            workers = [*jobs_with("--members"), *jobs_with("--whole-run")]
            if not workers or run.poll() is not None:
                continue
            victim = self.random.choice(workers)
            try:
                if self.random.random() < 0.2:
                    victim.suspend()
                    threading.Event().wait(self.random.uniform(0.5, 5.0))
                    victim.resume()
                else:
                    victim.kill()
            except psutil.NoSuchProcess:
                continue
            self.faults += 1

    def _is_explained(self, fact: dict) -> bool:
        if "shared" in fact:
            self.became["shared trouble"] += 1
            return True
        name, error = fact.get("member") or fact["alone"], fact["error"]
        kind = name.partition("_")[0]
        self.became[f"{kind}{' alone' if 'alone' in fact else ''}: {error or 'well'}"] += 1
        if kind != "healthy":
            return True
        if "member" in fact:
            self.latest = max(self.latest, fact["seconds"])
            if fact["seconds"] > LATE_SECONDS:
                print(f"TOO LATE: {fact}", flush=True)
                return False
        allowed = {None, "OutcomeUnknownError", "RetryableError"}  # killed, or stopped for too long
        if error not in allowed:
            print(f"UNEXPECTED: {fact}", flush=True)
        return error in allowed

    def _verdict(self) -> bool:
        world = self.world
        for pipeline in (*self.healthy, self.poisonous):  # what the last kills have left undone
            while world.run_batch(pipeline) is not None:
                continue
        wrong = [
            pipeline.name
            for pipeline in (*self.healthy, self.poisonous)
            if as_dict(world.rows(pipeline))
            != newest_by_key(sent for sent in world.sent_to(pipeline) if sent.value != POISON)
        ]
        kept = len(world.quarantine(self.poisonous))
        findings = [
            finding
            for pipeline in (*self.healthy, self.poisonous)
            for finding in audit(world.settings, pipeline, deep=True).findings
        ]
        print(
            f"{self.faults} faults; tables that differ from the oracle: {', '.join(wrong) or 'none'}; "
            f"in the quarantine {kept} of {self.poisoned}; findings: {findings or 'none'}",
            flush=True,
        )
        return not wrong and kept == self.poisoned and not findings


if __name__ == "__main__":
    sys.exit(main())
