"""An example of a sink of two phases: files that are written aside, and that one atomic step publishes.

A pipeline uses it so:

    sinks:
      export:
        python: {file: two_phase_files.py, class: TwoPhaseFiles, options: {path: /srv/export/orders}}
        mode: two_phase

A reader takes the files that `published/` names, in order. The folder must be on one file system, which makes a hard
link only where there is no file of that name. See docs/sinks.md, "A sink of your own".

Source: Flink's TwoPhaseCommitSinkFunction, after which the methods are called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from include.delivery.user_class import Overtaken, UserBatch

Manifest = dict[str, Any]  # file, after, progress; and whether the rows are all there are


class TwoPhaseFiles:
    """JSON lines; each has the operation in `op`."""

    def __init__(self, options: Mapping[str, object], pipeline: str, sink: str) -> None:
        self._folder = Path(str(options["path"])) / pipeline / sink
        for name in ("parts", "pending", "published"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)

    def progress(self) -> str | None:
        found = self._newest()
        return None if found is None else str(found[1]["progress"])

    def begin(self, name: str) -> tuple[str, TextIO]:
        for aside in (self._folder / "parts").glob("*.json"):  # of deliveries that were killed before they had prepared
            self._give_up(aside.stem)
        self._aside(name).touch(exist_ok=False)
        return name, self._part(name).open("x")

    def write(self, transaction: tuple[str, TextIO], batch: UserBatch) -> None:
        name, part = transaction
        if self.progress() != batch.after:
            raise Overtaken
        for keys in batch.removed():
            part.writelines(_line({"op": "delete", **key}) for key in keys.to_pylist())
        for rows in batch.rows():
            part.writelines(_line({"op": "upsert", **row}) for row in rows.to_pylist())
        said = {"file": self._part(name).name, "after": batch.after, "is_snapshot": batch.is_snapshot}
        self._tell(name, said)

    def prepare(self, transaction: tuple[str, TextIO], progress: str) -> None:
        name, part = transaction
        part.flush()
        os.fsync(part.fileno())
        part.close()
        self._tell(name, {**json.loads(self._aside(name).read_text()), "progress": progress})
        self._aside(name).rename(self._pending(name))  # from here on it is prepared
        _sync(self._folder / "pending")

    def commit(self, name: str) -> bool:
        try:
            mine = json.loads(self._pending(name).read_text())
        except FileNotFoundError:
            return False
        number, newest = self._newest() or (0, None)
        if newest is not None and newest["file"] == mine["file"]:  # it has taken effect, and was killed after that
            self._pending(name).unlink(missing_ok=True)
            return True
        try:
            if (None if newest is None else newest["progress"]) != mine["after"]:
                raise FileExistsError
            os.link(self._pending(name), self._folder / "published" / f"{number + 1:010}.json")
        except FileNotFoundError:  # somebody has aborted it meanwhile
            return False
        except FileExistsError:  # another transaction was faster
            self.abort(name)
            return False
        _sync(self._folder / "published")
        self._pending(name).unlink(missing_ok=True)
        return True

    def abort(self, name: str) -> bool:
        self._give_up(name)
        was_pending = self._pending(name).exists()
        self._pending(name).unlink(missing_ok=True)  # first: what is not pending is published before, or never
        published = (json.loads(file.read_text()) for file in (self._folder / "published").iterdir())
        if all(manifest["file"] != self._part(name).name for manifest in published):
            self._part(name).unlink(missing_ok=True)
        return was_pending

    def recover(self) -> list[str]:
        return sorted(file.name.removesuffix(".json") for file in (self._folder / "pending").glob("*.json"))

    def read(self) -> Iterator[dict[str, object]]:
        """All rows by key, for `lakemark sinks test`: the first column is the key there."""
        rows: dict[object, dict[str, object]] = {}
        for file in sorted((self._folder / "published").iterdir()):
            manifest = json.loads(file.read_text())
            if manifest["is_snapshot"]:
                rows.clear()
            for line in (self._folder / "parts" / manifest["file"]).read_text().splitlines():
                row = json.loads(line)
                op, key = row.pop("op"), next(iter(row.values()))
                rows.pop(key, None)
                if op == "upsert":
                    rows[key] = row
        yield from rows.values()

    def close(self) -> None:
        return

    def _newest(self) -> tuple[int, Manifest] | None:
        newest = max((self._folder / "published").iterdir(), default=None)
        return None if newest is None else (int(newest.stem), json.loads(newest.read_text()))

    def _give_up(self, name: str) -> None:
        """Removes what a transaction has left that is not prepared: without the file aside it never will be."""
        try:
            self._aside(name).unlink()
        except FileNotFoundError:  # it is prepared, or has ended
            return
        self._part(name).unlink(missing_ok=True)

    def _tell(self, name: str, said: Manifest) -> None:
        """Raises FileNotFoundError: somebody has aborted it."""
        with self._aside(name).open("r+") as aside:
            aside.truncate()
            json.dump(said, aside)
            aside.flush()
            os.fsync(aside.fileno())

    def _part(self, name: str) -> Path:
        return self._folder / "parts" / f"{name}.jsonl"

    def _aside(self, name: str) -> Path:
        return self._folder / "parts" / f"{name}.json"

    def _pending(self, name: str) -> Path:
        return self._folder / "pending" / f"{name}.json"


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row, default=str) + "\n"


def _sync(folder: Path) -> None:
    """What was renamed or linked there outlives a loss of power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
