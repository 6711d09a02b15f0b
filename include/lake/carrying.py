"""Carries data files to another folder: they never change, so in the same store a second name is a copy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from include.lake.copying import copy_file
from include.lake.stores import files_at
from include.lake.uri import LakeUri

_AT_ONCE = 16
_TOLD_EVERY = 1_000  # files


def carry(names: Collection[str], old: LakeUri, new: LakeUri, say: Callable[[str], None] = lambda _: None) -> None:
    """Gives files the same names in another folder. Those that are there stay as they are.

    Args:
        names: relative to the folder. say: is told now and then how far it is.

    Raises:
        FileNotFoundError: one is gone. OSError: a store refuses. RetryableError: see `copy_file`.
    """
    bring = files_at(new).link if old.scheme == new.scheme else copy_file
    with ThreadPoolExecutor(_AT_ONCE) as several:
        waiting = several.map(lambda name: bring(old / name, new / name), sorted(names))
        for count, _ in enumerate(waiting, 1):
            if count % _TOLD_EVERY == 0:
                say(f"{count:,} of {len(names):,} files")
