"""Looks at earlier versions of a table: which files each needs, and whether they are still there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from include.lake.damage import on_one_line
from include.lake.merge.frozen import names_of, thawed
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import NoLogError, UnfitError
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonObject

Frozen = Callable[[int], LakeUri]  # where a version of the table is frozen, if it is


@dataclass(frozen=True)
class Past:
    """One version, or why it cannot be read."""

    version: int
    names: Mapping[str, int]  # its files, relative to the table, with their sizes in bytes; empty if it is lost
    lost: str | None = None  # the first file that is not there, or what else is wrong

    @property
    def bytes(self) -> int:
        return sum(self.names.values())


def past_of(uri: LakeUri, versions: Iterable[int], frozen: Frozen | None = None) -> dict[int, Past]:
    """Looks at versions of a table. It reads no data file.

    Args:
        frozen: where a version is frozen, if it is: asked where the table's log no longer reaches back.

    Raises:
        OSError: the store does not answer.
    """
    there = {file.name for file in files_at(uri).list(uri)}
    found: dict[int, Past] = {}
    table: Snapshot | None = None
    for version in sorted(set(versions)):
        try:
            if table is None or not table.brought_to(version):
                table = Snapshot.at(uri, version)
            of_one = table if table is not None else _thawed(uri, version, frozen)
            names = names_of(of_one) if of_one is not None else None
        except (UnfitError, TableDamaged) as error:
            table = None
            found[version] = Past(version, {}, on_one_line(error))
            continue
        if names is None:
            found[version] = Past(version, {}, "log clean-up has removed its log")
        else:
            found[version] = Past(version, names, next((name for name in sorted(names) if name not in there), None))
    return found


def version_at(uri: LakeUri, version: int, frozen: Frozen | None = None) -> Snapshot | None:
    """An earlier version, from the table's log or from where it is frozen; None if neither has it. Raises as
    `Snapshot.at`."""
    return Snapshot.at(uri, version) or _thawed(uri, version, frozen)


def rows_in(table: Snapshot) -> int | None:
    """How many rows a version has, as its log says; None: it does not say it of every file."""
    count = 0
    for file in table.files.values():
        told: JsonObject = json.loads(file.get("stats") or "{}")
        if "numRecords" not in told:
            return None
        count += told["numRecords"] - (file.get("deletionVector") or {}).get("cardinality", 0)
    return count


def _thawed(uri: LakeUri, version: int, frozen: Frozen | None) -> Snapshot | None:
    if frozen is None:
        return None
    with suppress(NoLogError):
        return replace(thawed(frozen(version), uri), version=version)
    return None
