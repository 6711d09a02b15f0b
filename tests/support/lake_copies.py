"""Copies of lakes, for tests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.control.coordinator import Coordinator
from include.control.lake_copy import LakeCopy
from include.lake.lakes import COPIED, COPYINGS
from include.lake.stores import files_at
from include.lake.uri import LakeUri


def in_lake(coordinator: Coordinator, lake: LakeUri) -> Coordinator:
    return Coordinator(replace(coordinator.settings, lake=lake), coordinator.pipeline)


def copy(coordinator: Coordinator, to: LakeUri) -> dict:
    return LakeCopy(coordinator.settings, to, [coordinator.pipeline], print).run()


def contents(lake: LakeUri) -> dict[str, bytes]:
    """All files that belong to the lake wherever it lies."""
    files, own = files_at(lake), ("_lakemark/lake.json", "_lakemark/moved.json", COPIED, COPYINGS)
    return {
        file.name: files.open(lake / file.name).read() for file in files.list(lake) if not file.name.startswith(own)
    }


def stopped_copy(coordinator: Coordinator, to: LakeUri, step: str = "_copy_rest", after: int = 0) -> None:
    """A copying that is killed at a step, when it has been done so often."""
    real, done = getattr(LakeCopy, step), 0

    def stop(self: LakeCopy, *given: object) -> None:
        nonlocal done
        if done == after:
            raise KeyboardInterrupt
        done += 1
        real(self, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LakeCopy, step, stop)
        with pytest.raises(KeyboardInterrupt):
            copy(coordinator, to)


def contents_of(lake: LakeUri, name: str) -> bytes:
    return files_at(lake).open(lake / name).read()
