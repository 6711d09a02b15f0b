"""What `make bench` writes down: JSON of all rounds, tables of the medians, and a plot of each work."""

from __future__ import annotations

import json
import statistics
from pathlib import Path


def add_to_report(folder: Path, machine: dict, work: dict) -> None:
    """One JSON file of everything, one page of tables, and a plot per work: median wall and CPU seconds of each.

    A work that was measured before is replaced; the others stay, for contenders are compared within a work only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "bench.json"
    works = {known["name"]: known for known in json.loads(file.read_text())["works"]} if file.exists() else {}
    found = {"machine": machine, "works": list((works | {work["name"]: work}).values())}
    file.write_text(json.dumps(found, indent=1) + "\n")
    (folder / "README.md").write_text(_page(found))
    _plot(work, folder / f"bench-{work['name']}.svg")


def _page(found: dict) -> str:
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found["machine"].items())
    lines = [
        "# What `make bench` measured",
        "",
        f"Written by the run itself; {facts}. Medians of interleaved rounds.",
        "",
    ]
    for work in found["works"]:
        base = statistics.median(work["seconds"]["lakemark"])
        lines += [
            f"## {work['title']}",
            "",
            f"{work['on']}: {work['rounds']} rounds after {work['warm_ups']} that warm up.",
            "",
        ]
        lines += ["| | seconds | CPU seconds | Lakemark takes, of its time |", "| --- | --- | --- | --- |"]
        for name, taken in work["seconds"].items():
            median, cpu = statistics.median(taken), statistics.median(work["cpu_seconds"][name])
            lines.append(f"| {name} | {median:.2f} | {cpu:.2f} | {base / median:.2f} |")
        lines += ["", f"![{work['title']}](bench-{work['name']}.svg)", ""]
    return "\n".join(lines)


def _plot(work: dict, file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "lakemark"  # the same figures give the same file
    from matplotlib import pyplot

    names = sorted(work["seconds"], key=lambda name: statistics.median(work["seconds"][name]), reverse=True)
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(names) + 1.2), layout="constrained")
    for place, name in enumerate(names):
        wall, cpu = work["seconds"][name], work["cpu_seconds"][name]
        ours = name.startswith("lakemark")
        axes.barh(place, statistics.median(wall), height=0.6, color="#2a6f97" if ours else "#a9b4bf")
        axes.plot(wall, [place] * len(wall), "|", color="#222222", markersize=9)
        axes.plot(statistics.median(cpu), place, "o", color="#d1495b", markersize=5)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("seconds a batch: bar the median, ticks each round; dot the median of CPU seconds")
    axes.set_title(work["title"], fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
