"""What the soak sends, and what must come of it. Knows nothing of the product."""

from __future__ import annotations

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


@dataclass
class Expected:
    """The right tables of one pipeline: the newest change of each key, and what belongs in the quarantine."""

    moves: bool = False  # keys move, between as many tables as there are routes
    tables: list[dict[int, tuple[tuple, dict[str, Any]]]] = field(default_factory=list)
    aside: set[tuple[str, int, int]] = field(default_factory=set)
    events: int = 0

    def __post_init__(self) -> None:
        self.tables = [{} for _ in range(ROUTES if self.moves else 1)]

    def add(self, sent: Iterable[Sent]) -> None:
        for record in sent:
            self.events += 1
            change = record.value
            if not isinstance(change, dict):
                self.aside.add((record.topic, record.partition, record.offset))
                continue
            order = (change["seq"], record.topic, record.partition, record.offset)
            self._apply(self._tables_of(change), change["id"], order, change)
            before = change.get("old_id")
            if before not in (None, change["id"]):  # the row that it was is gone, wherever it was
                self._apply(self.tables, before, order, {"op": "d"})

    def _tables_of(self, change: dict[str, Any]) -> list[dict[int, tuple[tuple, dict[str, Any]]]]:
        if not self.moves:
            return self.tables
        return self.tables if change["kind"] is None else [self.tables[change["kind"] == "b"]]

    @staticmethod
    def _apply(tables: Iterable[dict], key: int, order: tuple, change: dict[str, Any]) -> None:
        for newest in tables:
            if key not in newest or order > newest[key][0]:
                newest[key] = (order, change)

    def rows(self) -> list[dict[int, dict[str, Any]]]:
        """What readers of each table see."""
        return [{k: change for k, (_, change) in newest.items() if change["op"] != "d"} for newest in self.tables]


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
