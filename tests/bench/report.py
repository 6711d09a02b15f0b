"""What `make bench` writes down: JSON of all rounds, tables of their medians or means, and a plot of each work."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path


def add_to_report(folder: Path, machine: dict, work: dict) -> None:
    """One JSON file of everything, one page of tables, and a plot per work: wall and CPU seconds of each.

    A work that was measured before is replaced; the others stay, for contenders are compared within a work only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "bench.json"
    works = {known["name"]: known for known in json.loads(file.read_text())["works"]} if file.exists() else {}
    found = {"machine": machine, "works": list((works | {work["name"]: work}).values())}
    file.write_text(json.dumps(found, indent=1) + "\n")
    (folder / "README.md").write_text(_page(found))
    _plot(work, folder / f"bench-{work['name']}.svg")


def figures(work: dict) -> Iterator[tuple[str, float, float, float, float]]:
    """Names each contender, its seconds, CPU seconds and megabytes per batch, and which part of its time Lakemark
    takes."""
    middle = {"mean": statistics.mean, "median": statistics.median}[work["figure"]]
    ours = next(name for name in work["seconds"] if name.startswith("lakemark"))
    base = middle(work["seconds"][ours])
    for name, taken in work["seconds"].items():
        written = work.get("megabytes", {}).get(name, [math.nan])  # reports of before 2026-11-26 have none
        yield name, middle(taken), middle(work["cpu_seconds"][name]), middle(written), base / middle(taken)


def _page(found: dict) -> str:
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found["machine"].items())
    lines = [
        "# What `make bench` measured",
        "",
        f"Written by the run itself; {facts}. Rounds are interleaved.",
        "",
    ]
    for work in found["works"]:
        lines += [
            f"## {work['name']}: {work['title']}",
            "",
            f"{work['on']}: {work['figure']}s of {work['rounds']} rounds after {work['warm_ups']} that warm up.",
            "",
        ]
        heads = ("", "seconds", "CPU seconds", "MB written", "Lakemark takes, of its time")
        lines += [_line(heads), _line(["---"] * len(heads))]
        lines += [_line([name, *map(_shown, numbers)]) for name, *numbers in figures(work)]
        lines += ["", f"![{work['title']}](bench-{work['name']}.svg)", ""]
    return "\n".join(lines)


def _shown(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plot(work: dict, file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "lakemark"  # the same figures give the same file
    from matplotlib import pyplot

    slowest_first = sorted(figures(work), key=lambda found: found[1], reverse=True)
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(slowest_first) + 1.2), layout="constrained")
    for place, (name, seconds, cpu, *_) in enumerate(slowest_first):
        rounds = work["seconds"][name]
        axes.barh(place, seconds, height=0.6, color="#2a6f97" if name.startswith("lakemark") else "#a9b4bf")
        axes.plot(rounds, [place] * len(rounds), "|", color="#222222", markersize=9)
        axes.plot(cpu, place, "o", color="#d1495b", markersize=5)
    axes.set_yticks(range(len(slowest_first)), [name for name, *_ in slowest_first])
    axes.set_xlabel(f"seconds a batch: bar the {work['figure']}, ticks each round; dot CPU seconds")
    axes.set_title(work["title"], fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
