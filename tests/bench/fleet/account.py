"""Where the CPU of an installation goes: seconds by process, and how many of them went into imports.

What lives at both ends of a window is read from the kernel. What began and ended within it has written down its own
seconds (`tests/support/cpu_watch`). The kernel also knows the sum of all of them, so nothing can be missing unseen.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from include.installation.stack import Stack
from include.installation.supervisor import supervisor_state

CPU_WATCH = Path(__file__).parents[2] / "support" / "cpu_watch"
_LOOK_SECONDS = 5.0
_EXECUTOR = "LocalExecutor"
_MB = 1 << 20
# What a process was, by its command line at its end.
_ENDED = {
    "job": re.compile(r"spark_jobs\.merge_job"),
    "task": re.compile("airflow worker -- "),
    "parsing of DAG files": re.compile("airflow dag-processor"),
    "by hand: spark-submit": re.compile("by_hand_job"),
}


@dataclass(frozen=True)
class Standing:
    """What the kernel says at a moment: CPU seconds since each process began."""

    total: float  # of all processes that live, and of all that have ended under them
    own: Counter[str]  # of those that live, by part


@dataclass
class Window:
    """What was used between two moments. Seconds of CPU, megabytes."""

    seconds: float = 0.0
    total: float = 0.0
    parts: Counter[str] = field(default_factory=Counter)
    imports: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # how many processes
    # At every look, in order. Shared pages are divided among their users.
    memory: list[Counter[str]] = field(default_factory=list)

    @property
    def cores(self) -> float:
        return self.total / self.seconds

    def memory_of(self, part: str) -> tuple[float, float, float]:
        """The mean of the first tenth, the mean of the last tenth, and the most at once."""
        tenth, series = max(1, len(self.memory) // 10), [look[part] for look in self.memory]
        return sum(series[:tenth]) / tenth, sum(series[-tenth:]) / tenth, max(series)


@dataclass(frozen=True)
class Account:
    """Args: lines: the file in which processes write down what they have used. database: the id of its server's
    process; None: SQLite."""

    stack: Stack
    lines: Path
    database: int | None = None

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Begin and end it where no process is at work that will end."""
        found, ended = Window(), threading.Event()
        looks = threading.Thread(target=self._watch_memory, args=(found.memory, ended), daemon=True)
        before, began, read = self._standing(), time.monotonic(), len(self._ended())
        looks.start()
        yield found
        found.seconds = time.monotonic() - began
        ended.set()
        looks.join()
        after = self._standing()
        found.total = after.total - before.total
        found.parts = Counter({part: after.own[part] - before.own[part] for part in after.own})
        for line in self._ended()[read:]:
            part = _kind(line["title"], f"other: {line['title'][:60]}")
            found.parts[part] += line["cpu"]
            found.imports[part] += line["imports"]
            found.ended[part] += 1
        found.parts["killed, or not Python"] = found.total - sum(found.parts.values())

    def _ended(self) -> list[dict]:
        text = self.lines.read_text() if self.lines.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def _standing(self) -> Standing:
        total, own = 0.0, Counter[str]()
        for process, part in self._parts():
            times = process.cpu_times()
            own[part] += times.user + times.system
            total += sum(times[:4])  # with those of its ended children
        return Standing(total, own)

    def _parts(self) -> Iterator[tuple[psutil.Process, str]]:
        state = supervisor_state(self.stack.state_file)
        assert state is not None, "the services run"
        services = {facts["pid"]: name.removeprefix("airflow-") for name, facts in state["services"].items()}
        if self.database is not None:
            server = psutil.Process(self.database)
            yield from ((process, "postgresql") for process in (server, *server.children(recursive=True)))
        for process in self.stack.processes():
            try:
                line = [process, *process.parents()]
                part = next((services[p.pid] for p in line if p.pid in services), "supervisor")
                title = " ".join(process.cmdline())
                own = part if process.pid in services else _kind(title, part)
                yield process, "executor" if _EXECUTOR in title else own
            except psutil.NoSuchProcess:
                continue

    def _watch_memory(self, looks: list[Counter[str]], ended: threading.Event) -> None:
        while True:
            now = Counter[str]()
            for process, part in self._parts():
                try:
                    now[part] += process.memory_full_info().pss / _MB
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            looks.append(now)
            if ended.wait(_LOOK_SECONDS):
                return


def _kind(title: str, otherwise: str) -> str:
    return next((kind for kind, shape in _ENDED.items() if shape.search(title)), otherwise)
