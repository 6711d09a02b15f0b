"""What the soak sends, and what must come of it. Knows nothing of the product."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.topics import Sent

# Records that no parser can make anything of.
HOSTILE = [
    b"",
    b'{"id": ',
    b"\xff\xfe",
    b'{"id": 1, "seq": 1, "name": "\xc3", "op": "u"}',
    b'{"id": 1, "seq": 1, "op": "u"}{"id": 2, "seq": 1, "op": "u"}',
    b'{"id": 1, "id": 2, "seq": 1, "op": "u"}',
    b'{"id": 1, "seq": 1, "op": "u"} and more',
    b'{"id": 1e400, "seq": 1, "op": "u"}',
    b'{"id": 1, "seq": 1, "name": "\\ud800", "op": "u"}',
    b'{"id": 9223372036854775808, "seq": 1, "op": "u"}',
    b'{"id": 1.5, "seq": 1, "op": "u"}',
    b'{"id": null, "seq": 1, "op": "u"}',
    b'[{"id": 1, "seq": 1, "op": "u"}]',
    b'{"id": 1, "seq": 1, "op": "u", "other": ' + b"[" * 2000 + b"]" * 2000 + b"}",
]


ROUTES = 2  # tables of the pipeline whose keys move: the target is the first
Order = tuple[int, str, int, int]  # seq, topic, partition, offset
State = tuple[int, int | None, int, str, str]  # since when, until when (in seq; None: now); seq, name, op


@dataclass
class Expected:
    """The right tables of one pipeline: the newest change of each key, every state of each key, what belongs in the
    quarantine, and all records."""

    moves: bool = False  # keys move, between as many tables as there are routes
    remembers: bool = False  # it has a table of history
    tables: list[dict[int, tuple[Order, dict[str, Any]]]] = field(default_factory=list)
    changes: dict[int, dict[Order, dict[str, Any]]] = field(default_factory=dict)  # all of them, for the history
    aside: set[tuple[str, int, int]] = field(default_factory=set)
    records: set[tuple[str, int, int, bytes]] = field(default_factory=set)  # for the archive
    events: int = 0

    def __post_init__(self) -> None:
        self.tables = [{} for _ in range(ROUTES if self.moves else 1)]

    def add(self, sent: Iterable[Sent], rejected: bool = False) -> None:
        """Takes records that the pipeline will read.

        Args:
            rejected: its suite sets them aside.
        """
        for record in sent:
            self.events += 1
            change, place = record.value, (record.topic, record.partition, record.offset)
            self.records.add((*place, json.dumps(change).encode() if isinstance(change, dict) else change))
            if rejected or not isinstance(change, dict):
                self.aside.add(place)
                continue
            order = (change["seq"], *place)
            if self.remembers:
                self.changes.setdefault(change["id"], {})[order] = change
            self._apply(self._tables_of(change), change["id"], order, change)
            before = change.get("old_id")
            if before not in (None, change["id"]):  # the row that it was is gone, wherever it was
                self._apply(self.tables, before, order, {"op": "d"})

    def _tables_of(self, change: dict[str, Any]) -> list[dict[int, tuple[Order, dict[str, Any]]]]:
        if not self.moves:
            return self.tables
        return self.tables if change["kind"] is None else [self.tables[change["kind"] == "b"]]

    @staticmethod
    def _apply(tables: Iterable[dict], key: int, order: Order, change: dict[str, Any]) -> None:
        for newest in tables:
            if key not in newest or order > newest[key][0]:
                newest[key] = (order, change)

    def rows(self) -> list[dict[int, dict[str, Any]]]:
        """What readers of each table see."""
        return [{k: change for k, (_, change) in newest.items() if change["op"] != "d"} for newest in self.tables]

    def states(self) -> dict[int, list[State]]:
        """What readers of the history see, by key, sorted."""
        found = ((key, sorted(_states(changes), key=str)) for key, changes in self.changes.items())
        return {key: states for key, states in found if states}


def _states(changes: dict[Order, dict[str, Any]]) -> list[State]:
    """The states of one key. A state holds until the next one begins, or until the key is deleted."""
    states: list[State] = []
    holds = False
    for _, change in sorted(changes.items()):
        since, values = change["seq"], (change["seq"], change["name"], change["op"])
        deletes = change["op"] == "d"
        if holds and not deletes and states[-1][2:] == values:
            continue  # a change of nothing
        if holds:
            states[-1] = (states[-1][0], since, *states[-1][2:])
        if not deletes:
            states.append((since, None, *values))
        holds = not deletes
    return states


def changes(chance: random.Random, count: int, keys: int, now: int, moves: bool = False) -> list[Any]:
    """Changes of random keys, some late, some deletes, now and then a hostile record.

    Args:
        moves: some change their keys, and each says which table it is for (`kind`); a delete that holds its key only
            says nothing.
    """
    return [
        chance.choice(HOSTILE) if chance.random() < 0.002 else _change(chance, count, keys, now + n, moves)
        for n in range(count)
    ]


def _change(chance: random.Random, count: int, keys: int, now: int, moves: bool) -> dict[str, Any]:
    late = chance.randrange(50 * count) if chance.random() < 0.1 else 0
    change: dict[str, Any] = {
        "id": chance.randrange(keys),
        "seq": max(0, now - late),
        "name": f"n{now}",
        "op": chance.choice("uuuuuuud"),
    }
    if not moves:
        return change
    if change["op"] == "d" and chance.random() < 0.5:
        return {**change, "name": None, "kind": None, "old_id": None}
    old_id = chance.randrange(keys) if chance.random() < 0.1 else None
    return {**change, "kind": chance.choice("aab"), "old_id": old_id}
