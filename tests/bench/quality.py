"""`make bench-quality`: what a quality suite costs a batch, as a ratio of medians within one run.

Real flights, batches of 200,000 events, a warm Spark server. The contenders take turns, batch by batch of one topic,
each into a table of its own; the first round warms up and is thrown away; in the end the tables must be equal.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import yaml

from include.demo.replay import PARTITIONS, TOPIC, flight_events, flights_csv, produce, records
from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.conftest import stack_in, world_in
from tests.support.world import World

BATCH = 200_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=4, choices=range(1, 5), help="measured, after the one that warms up (4)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the figures there, too")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="lakemark-bench-"))
    stack = stack_in(home)
    try:
        stack.up(say, ("kafka", "spark"))
        figures = quality(world_in(home, stack), options.rounds)
    finally:
        stack.down()
        shutil.rmtree(home, ignore_errors=True)
    for name, seconds in figures["seconds"].items():
        phases = ", ".join(f"{phase} {s:.1f}" for phase, s in figures["phases"][name].items())
        print(f"{name:<14} {seconds:6.1f} s a batch ({phases})")
    print(f"with the suite of {figures['rules']} rules: {figures['ratio']:.2f} times the batch without")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def quality(world: World, rounds: int) -> dict:
    """The flights pipeline without and with its suite."""
    shutil.copytree(PROJECT_ROOT / "include" / "expectations", world.settings.expectations, dirs_exist_ok=True)
    world.create_topic(TOPIC, PARTITIONS)
    say("sending flights ...")
    produce(records(flight_events(flights_csv())[: (rounds + 1) * BATCH]), world.bootstrap_servers, lambda text: None)
    contenders = {name: _flights(world, name, suite) for name, suite in (("without", None), ("with", "flights"))}
    seconds: dict[str, list[float]] = defaultdict(list)
    phases: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds + 1):
        order = list(contenders.items())[:: -1 if number % 2 else 1]  # nobody is always first
        for name, pipeline in order:
            result = world.run_batch(pipeline)
            assert result is not None
            say(f"round {number}, {name}: {sum(result.phase_seconds.values()):.1f} s")
            if number:
                seconds[name].append(sum(result.phase_seconds.values()))
                for phase, spent in result.phase_seconds.items():
                    phases[name][phase].append(spent)
    tables = [sorted(map(str, _without_lineage(world, pipeline))) for pipeline in contenders.values()]
    assert tables[0] == tables[1], "the tables differ"
    medians = {name: round(statistics.median(spent), 3) for name, spent in seconds.items()}
    suite = json.loads((world.settings.expectations / "flights.json").read_text())
    return {
        "rules": len(suite["expectations"]),
        "seconds": medians,
        "phases": {n: {p: round(statistics.median(s), 3) for p, s in by.items()} for n, by in phases.items()},
        "ratio": round(medians["with"] / medians["without"], 3),
        "rounds": rounds,
    }


def _flights(world: World, name: str, suite: str | None) -> Pipeline:
    """The flights pipeline under another name, into a table of its own."""
    data = yaml.safe_load((PROJECT_ROOT / "include" / "pipelines" / "flights.yaml").read_text())
    data |= {"name": f"flights_{name}", "quality": {"suite": suite}}
    data["target"]["table"] = f"lake://silver/flights_{name}"
    (world.settings.pipelines / f"flights_{name}.yaml").write_text(yaml.safe_dump(data))
    return world.load(f"flights_{name}")


def _without_lineage(world: World, pipeline: Pipeline) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "_lakemark"} for row in world.rows(pipeline)]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
