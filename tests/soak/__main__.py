"""`make soak`: a seeded random schedule of load and faults over several pipelines, and the verdict of an oracle.

    python -m tests.soak [--rounds N] [--seed S] [--records-per-round N] [--pipelines N]

One fault a round: kinds are dealt from a shuffled deck, so that every kind comes before the deck is shuffled again.
The seed decides records, kinds, victims and moments; it is printed, and `--seed` deals the same again. Exit code 0 only
if every table equals the oracle, the quarantines hold what they must, and `audit --deep` finds nothing.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from include.audit.auditor import audit
from include.installation.stack import Stack
from tests.conftest import stack_in, world_in
from tests.soak.faults import KINDS, can_suffer
from tests.soak.load import Expected, changes
from tests.soak.victim import PARTITIONS, Victim
from tests.support.world import World, as_dict, read_table

CHECK_EVERY = 25  # rounds
AT_ONCE = 1e-9  # days


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--records-per-round", type=int, default=7000)
    parser.add_argument("--pipelines", type=int, default=4)
    options = parser.parse_args(arguments)
    again = (
        f"--seed {options.seed} --rounds {options.rounds} --records-per-round {options.records_per_round} "
        f"--pipelines {options.pipelines}"
    )
    print(f"seed {options.seed}; to replay: python -m tests.soak {again}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lakemark-soak-") as folder:
        stack = stack_in(Path(folder) / "services")
        try:
            stack.up(print, ("kafka", "spark"))
            verdict = _soak(Path(folder), stack, random.Random(options.seed), options)
        finally:
            stack.down()
    print("the verdict: " + ("every table is the oracle's" if verdict else f"WRONG; to replay: {again}"), flush=True)
    return 0 if verdict else 1


def _soak(folder: Path, stack: Stack, chance: random.Random, options: argparse.Namespace) -> bool:
    world = world_in(folder, stack)
    world.write_suite("soak", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}])
    victims = [_victim(world, stack, n, chance, options) for n in range(options.pipelines)]
    injected: Counter[str] = Counter()
    deck = _deck(chance)
    began = time.monotonic()
    for number in range(1, options.rounds + 1):
        kind = next(kind for kind in deck if any(can_suffer(kind, victim) for victim in victims))
        victim = chance.choice([victim for victim in victims if can_suffer(kind, victim)])
        now = victim.expected.events
        count = chance.randint(options.records_per_round // 2, options.records_per_round * 3 // 2)
        values = changes(victim.chance, count, 4 * options.records_per_round, now, victim.expected.moves)
        victim.expected.add(world.produce(victim.topic, values, PARTITIONS))
        world.sent.clear()
        started = time.monotonic()
        try:
            bit = KINDS[kind](victim)
        except Exception:
            traceback.print_exc()
            print(f"round {number}: {kind} on {victim.pipeline.name} went wrong itself", flush=True)
            return False
        injected[kind] += bit
        told = "" if bit else " (did not bite)"
        at, took = time.monotonic() - began, time.monotonic() - started
        print(f"{at:6.0f} s  round {number:3}  {victim.pipeline.name}  {kind}{told}, {took:.1f} s", flush=True)
        if number % CHECK_EVERY == 0 and not _all_right(victims, deep=False):
            return False
    verdict = _all_right(victims, deep=True)
    _summary(victims, injected, time.monotonic() - began)
    return verdict


def _victim(world: World, stack: Stack, number: int, chance: random.Random, options: argparse.Namespace) -> Victim:
    """A landing; a clustered table with an archive; one whose tombstones are purged; one whose keys move."""
    name = f"soak_{number}"
    source: dict[str, Any] = {"limits": {"records_per_batch_max": 3 * options.records_per_round}}
    change: dict[str, Any] = {"delete_when": "op = 'd'"}
    target: dict[str, Any] = {}
    others: dict[str, Any] = {}
    match number:
        case 0:
            others = {"archive": "lake://bronze/soak", "merge_every": 3}
        case 1:
            target = {"cluster_by": ["id"]}
            others = {"archive": f"lake://bronze/{name}"}
        case 2:
            others = {"maintenance": {"purge_tombstones_after_days": AT_ONCE}}
        case 3:
            source["schema"] = "id BIGINT, old_id BIGINT, seq BIGINT, name STRING, kind STRING, op STRING"
            change["previous_keys"] = {"id": "old_id"}
            target = {"routes": [{"table": f"lake://silver/{name}_b", "when": "kind = 'b'"}]}
    pipeline = world.pipeline(
        world.topic(PARTITIONS), name, source=source, change=change, target=target, quality={"suite": "soak"}, **others
    )
    expected = Expected(moves=number == 3)
    return Victim(world, stack, pipeline, expected, random.Random(chance.random()), forgets=number != 2)


def _deck(chance: random.Random) -> Iterator[str]:
    """Kills at fault points come twice: they are quick."""
    while True:
        kinds = sorted([*KINDS, *(kind for kind in KINDS if kind.startswith("killed at "))])
        chance.shuffle(kinds)
        yield from kinds


def _all_right(victims: list[Victim], deep: bool) -> bool:
    verdicts = [_right(victim, deep) for victim in victims]  # all of them speak, whatever the first one says
    return all(verdicts)


def _right(victim: Victim, deep: bool) -> bool:
    victim.drain()
    world, pipeline, expected = victim.world, victim.pipeline, victim.expected
    tables = world.coordinator(pipeline).tables
    right = expected.rows()
    found = [as_dict(read_table(path)) for path in (tables.target, *tables.routes.values())]
    wrong = [
        (key, held.get(key), rows.get(key))
        for held, rows in zip(found, right, strict=True)
        for key in held.keys() | rows.keys()
        if held.get(key) != rows.get(key)
    ]
    aside = {(row["topic"], row["partition"], row["offset"]) for row in world.quarantine(pipeline)}
    report = audit(world.settings, pipeline, deep and not expected.moves)  # which is beyond its second opinion
    of_landing = audit(world.settings, pipeline.landing).findings if pipeline.landing else ()
    findings = [*report.findings, *of_landing]
    lost, more = len(expected.aside - aside), len(aside - expected.aside)
    print(
        f"  {pipeline.name}: {sum(map(len, right)):,} rows, {len(wrong)} wrong; quarantine {len(aside)}, {lost} lost, "
        f"{more} too many; {len(findings)} audit findings" + (f"; {report.recomputed}" if report.recomputed else ""),
        flush=True,
    )
    for key, held, row in wrong[:5]:
        print(f"    key {key}: found {held}, expected {row}", flush=True)
    for finding in findings:
        print(f"    {finding}", flush=True)
    return not (wrong or lost or more or findings)


def _summary(victims: list[Victim], injected: Counter[str], seconds: float) -> None:
    print(f"\n{injected.total()} faults of {len(+injected)} kinds in {seconds:.0f} s:")
    for kind, times in sorted(injected.items()):
        print(f"  {times:4}  {kind}")
    commits, attempts = 0, 0
    for victim in victims:
        report = audit(victim.world.settings, victim.pipeline)
        commits += report.batches
        rows = victim.world.coordinator(victim.pipeline).ledger.rows()
        attempts += sum(row["event"] == "attempt_started" for row in rows)
    events = sum(victim.expected.events for victim in victims)
    print(f"{events:,} events, {commits} batches, {attempts} attempts on record in the ledgers that were not lost")


if __name__ == "__main__":
    sys.exit(main())
