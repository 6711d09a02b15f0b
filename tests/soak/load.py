"""What the soak sends, and what must come of it. Knows nothing of the product."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.world import Sent

# Records of which nothing can be made, whatever a parser thinks of them.
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


@dataclass
class Expected:
    """The right table of one pipeline: by key the newest change; and what belongs into the quarantine."""

    newest: dict[int, tuple[tuple, dict[str, Any]]] = field(default_factory=dict)
    aside: set[tuple[str, int, int]] = field(default_factory=set)
    events: int = 0

    def add(self, sent: Iterable[Sent]) -> None:
        for record in sent:
            self.events += 1
            if not isinstance(record.value, dict):
                self.aside.add((record.topic, record.partition, record.offset))
                continue
            key, order = record.value["id"], (record.value["seq"], record.topic, record.partition, record.offset)
            if key not in self.newest or order > self.newest[key][0]:
                self.newest[key] = (order, record.value)

    def rows(self) -> dict[int, dict[str, Any]]:
        return {key: change for key, (_, change) in self.newest.items() if change["op"] != "d"}


def changes(chance: random.Random, count: int, keys: int, now: int) -> list[Any]:
    """Changes of random keys, some late, some deletes, now and then a hostile record."""
    late = 50 * count
    return [
        chance.choice(HOSTILE)
        if chance.random() < 0.002
        else {
            "id": chance.randrange(keys),
            "seq": max(0, now + n - (chance.randrange(late) if chance.random() < 0.1 else 0)),
            "name": f"n{now + n}",
            "op": chance.choice("uuuuuuud"),
        }
        for n in range(count)
    ]
