"""Loaded by every Python process that has this folder on its path: at its end it writes down its CPU seconds, and how
many of them went into imports.

A parent only knows the sum of its ended children. What each of them was can be told by themselves alone.
"""

from __future__ import annotations

import atexit
import importlib._bootstrap as bootstrap
import json
import os
import time
from pathlib import Path

_file = os.environ.get("LAKEMARK_TEST_CPU")


class _Watch:
    """The CPU seconds of this process that its outermost imports took."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A forked child begins with no CPU seconds, and possibly within an import."""
        self.imports, self.is_importing = 0.0, False


_watch = _Watch()


def _timed(find_and_load):
    def timed(name, import_):
        if _watch.is_importing:
            return find_and_load(name, import_)
        _watch.is_importing = True
        began = time.process_time()
        try:
            return find_and_load(name, import_)
        finally:
            _watch.imports += time.process_time() - began
            _watch.is_importing = False

    return timed


def _tell() -> None:
    title = Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    line = {
        "title": title[:2000],
        "cpu": time.process_time(),
        "imports": _watch.imports,
    }
    with Path(_file).open("a") as lines:
        lines.write(json.dumps(line) + "\n")


def _exit(code, _now=os._exit):
    try:
        _tell()
    finally:
        _now(code)


if _file:
    bootstrap._find_and_load = _timed(bootstrap._find_and_load)
    os.register_at_fork(after_in_child=_watch.reset)
    atexit.register(_tell)
    os._exit = _exit
