"""`make soak`: a seeded random schedule of load and faults over several pipelines, and the verdict of an oracle.

    python -m tests.soak [--rounds N] [--seed S] [--records-per-round N] [--pipelines N] [--kinds REGEX] [--lake s3]
        [--group]

One fault a round: kinds are dealt from a shuffled deck, so that every kind comes before the deck is shuffled again. It
hits a pipeline that has suffered the kind least often.
The seed decides records, kinds, victims and moments; it is printed, and `--seed` deals the same again. Exit code 0 only
if every table equals the oracle, the quarantines hold what they must, and `audit --deep` finds nothing.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from include.audit.auditor import audit
from include.installation.stack import Stack
from tests.conftest import LAKES, lossy_stack, stack_in, world_in
from tests.soak.comparison import is_right
from tests.soak.faults import KINDS, can_suffer, kinds_on
from tests.soak.victim import Victim
from tests.soak.victims import VICTIMS, victim_of
from tests.support.lossy_store import LossyStore
from tests.support.sink_servers import PostgresServer, postgres_server

CHECK_EVERY = 25  # rounds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--records-per-round", type=int, default=7000)
    parser.add_argument("--pipelines", type=int, default=VICTIMS)
    parser.add_argument("--kinds", default="", help="only kinds whose names match; by default all")
    parser.add_argument("--lake", choices=LAKES, default="local", help="s3: behind a proxy that deals faults, too")
    parser.add_argument("--group", action="store_true", help="the faults hit runs of a group, of all pipelines")
    options = parser.parse_args(arguments)
    again = (
        f"--seed {options.seed} --rounds {options.rounds} --records-per-round {options.records_per_round} "
        f"--pipelines {options.pipelines} --kinds '{options.kinds}' --lake {options.lake}"
        f"{' --group' if options.group else ''}"
    )
    print(f"seed {options.seed}; to replay: python -m tests.soak {again}", flush=True)
    with tempfile.TemporaryDirectory(prefix="lakemark-soak-") as folder, ExitStack() as up:
        stack, store = _services(up, Path(folder) / "services", options.lake)
        postgres = up.enter_context(postgres_server(max_prepared_transactions="10"))
        verdict = _soak(Path(folder), stack, store, postgres, random.Random(options.seed), options)
    print("the verdict: " + ("every table is the oracle's" if verdict else f"WRONG; to replay: {again}"), flush=True)
    return 0 if verdict else 1


def _services(up: ExitStack, home: Path, lake: str) -> tuple[Stack, LossyStore | None]:
    if lake == "s3":
        return up.enter_context(lossy_stack(home))
    stack = stack_in(home)
    up.callback(stack.down)
    stack.up(print, ("kafka", "spark"))
    return stack, None


def _soak(
    folder: Path,
    stack: Stack,
    store: LossyStore | None,
    postgres: PostgresServer,
    chance: random.Random,
    options: argparse.Namespace,
) -> bool:
    world, kinds = world_in(folder, stack, options.lake), kinds_on(options.lake)
    per_round = options.records_per_round
    victims = [victim_of(world, stack, store, n, chance, per_round, postgres) for n in range(options.pipelines)]
    for victim in victims if options.group else ():
        victim.group = [one.pipeline.name for one in victims]
    injected: Counter[tuple[str, str]] = Counter()
    deck = _deck(chance, [*kinds], options.kinds)
    began = time.monotonic()
    for number in range(1, options.rounds + 1):
        kind = next(kind for kind in deck if any(can_suffer(kind, victim) for victim in victims))
        able = [victim for victim in victims if can_suffer(kind, victim)]
        chance.shuffle(able)
        victim = min(able, key=lambda victim: injected[kind, victim.pipeline.name])
        victim.send(chance.randint(options.records_per_round // 2, options.records_per_round * 3 // 2))
        started = time.monotonic()
        try:
            bit = kinds[kind](victim)
        except Exception:
            traceback.print_exc()
            print(f"round {number}: {kind} on {victim.pipeline.name} went wrong itself", flush=True)
            return False
        injected[kind, victim.pipeline.name] += bit
        told = "" if bit else " (did not bite)"
        at, took = time.monotonic() - began, time.monotonic() - started
        print(f"{at:6.0f} s  round {number:3}  {victim.pipeline.name}  {kind}{told}, {took:.1f} s", flush=True)
        if number % CHECK_EVERY == 0 and not _all_right(victims, deep=False):
            return False
    verdict = _all_right(victims, deep=True)
    _summary(victims, injected, time.monotonic() - began)
    if store is not None:
        of_kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(store.dealt.items()))
        print(f"{store.dealt.total()} requests to the store went wrong: {of_kinds}")
    return verdict


def _deck(chance: random.Random, kinds: list[str], wanted: str) -> Iterator[str]:
    """Kills at fault points come twice: they are quick.

    Args:
        wanted: a regular expression that is found in the names of kinds.
    """
    names = [kind for kind in kinds if re.search(wanted, kind)]
    while True:
        dealt = sorted([*names, *(kind for kind in names if kind.startswith("killed at "))])
        chance.shuffle(dealt)
        yield from dealt


def _all_right(victims: list[Victim], deep: bool) -> bool:
    verdicts = [is_right(victim, deep) for victim in victims]  # all of them speak, whatever the first one says
    return all(verdicts)


def _summary(victims: list[Victim], injected: Counter[tuple[str, str]], seconds: float) -> None:
    kinds = sorted({kind for kind, _ in +injected})
    print(f"\n{injected.total()} faults of {len(kinds)} kinds in {seconds:.0f} s:")
    for kind in kinds:
        times = {name: injected[kind, name] for _, name in sorted(injected) if injected[kind, name]}
        print(f"  {sum(times.values()):4}  {kind} ({', '.join(f'{name} {n}' for name, n in times.items())})")
    commits, attempts = 0, 0
    for victim in victims:
        report = audit(victim.world.settings, victim.pipeline)
        commits += report.batches
        rows = victim.world.coordinator(victim.pipeline).ledger.rows()
        attempts += sum(row["event"] == "attempt_started" for row in rows)
    runs = sum((victim.engines for victim in victims), Counter[str]())
    print(f"runs told to merge by: {', '.join(f'{engine} {n}' for engine, n in sorted(runs.items()))}")
    events = sum(victim.expected.events for victim in victims)
    print(f"{events:,} events, {commits} batches, {attempts} attempts on record in the ledgers that were not lost")


if __name__ == "__main__":
    sys.exit(main())
