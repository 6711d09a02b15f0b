"""Keeps tables apart: none lies in the folder of another one, and none has two writers.

VACUUM removes all files that its table's log does not name, also the files of another table in its folder. And if two
pipelines write one table, a promotion, a reset or an audit of one pipeline is wrong about the rows of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from include.protocol.json_data import JsonMapping

ROUTES_MAX = 100
_TABLE_MAX = 2_000  # characters: a longer one is refused, and need not be compared


class Place(NamedTuple):
    """A table that a pipeline file names."""

    field: str
    table: str  # lake://layer/table
    is_written: bool  # otherwise it is only read

    @property
    def folders(self) -> tuple[str, ...]:
        """The path below the lake, in lower case: some file systems ignore case."""
        return tuple(self.table.removeprefix("lake://").casefold().split("/"))


def places_in(data: JsonMapping) -> Iterator[Place]:
    """The tables that a pipeline file's data names. Parts that do not have the right form are left out."""
    target, transform = (
        part if isinstance(part := data.get(name), Mapping) else {} for name in ("target", "transform")
    )
    routes, references = target.get("routes"), transform.get("references")
    routes = routes[:ROUTES_MAX] if isinstance(routes, list | tuple) else ()
    references = references if isinstance(references, Mapping) else {}
    found: list[tuple[str, Any, bool]] = [
        ("target.table", target.get("table"), True),
        ("target.history_table", target.get("history_table"), True),
        ("archive", data.get("archive"), True),
        *(("target.routes", r.get("table"), True) for r in routes if isinstance(r, Mapping)),
        *((f"transform.references.{name}", table, False) for name, table in references.items()),
    ]
    tables = ((field, table, written) for field, table, written in found if isinstance(table, str))
    yield from (Place(field, t.strip(), written) for field, t, written in tables if len(t) <= _TABLE_MAX)


def clash(one: Place, other: Place) -> bool:
    """Whether the two may not exist together. One pipeline may read the table that another one writes."""
    a, b = one.folders, other.folders
    if a == b:
        return one.is_written and other.is_written
    return a[: len(b)] == b[: len(a)] and (one.is_written or other.is_written)


def clash_within(places: Iterator[Place]) -> Place | None:
    """The first place that clashes with one before it."""
    return next((other for one, other in combinations(places, 2) if clash(one, other)), None)


def clashes(places: Mapping[str, Sequence[Place]]) -> Mapping[str, set[str]]:
    """The pipelines that each pipeline clashes with, by name. The time grows with their number."""
    by_folders: dict[tuple[str, ...], list[tuple[str, Place]]] = defaultdict(list)
    for name, of_one in places.items():
        for place in of_one:
            by_folders[place.folders].append((name, place))
    found: dict[str, set[str]] = defaultdict(set)
    for name, of_one in places.items():
        for place in of_one:
            above = (place.folders[: depth + 1] for depth in range(len(place.folders)))
            for other, there in (pair for folders in above for pair in by_folders.get(folders, ())):
                if other != name and clash(place, there):
                    found[name].add(other)
                    found[other].add(name)
    return found
