"""Damage to a table's log, done by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[list[Path]], None]


def cut(log: list[Path]) -> None:
    log[-1].write_bytes(log[-1].read_bytes()[:-30])


def emptied(log: list[Path]) -> None:
    log[-1].write_bytes(b"")


def gap(log: list[Path]) -> None:
    log[-2].unlink()


def no_log(log: list[Path]) -> None:
    shutil.rmtree(log[0].parent)
