"""Random change streams, and the oracle of the tables that they make."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any

from include.pipeline_file import Pipeline

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SHOWN = ("name", "note")
Key = tuple[int, int]


@dataclass(frozen=True)
class Semantics:
    """What a pipeline file may ask for."""

    order: tuple[str, ...]
    patches: bool = False  # absent: keep
    moves: bool = False  # previous_keys
    track: tuple[str, ...] | None = None  # None: no history; (): of all columns
    by_tombstone: bool = False  # how rows are deleted
    is_clustered: bool = False

    def pipeline(self, note: str = "note STRING, ") -> Pipeline:
        change = {
            "keys": ["case_id", "id"],
            "order_by": list(self.order),
            "delete_when": "op = 'd'",
            "tombstones": "delete" if self.by_tombstone else None,
            "absent": "keep" if self.patches else None,
            "previous_keys": {"id": "old_id"} if self.moves else {},
            "track_columns": list(self.track or ()),
        }
        source = {
            "bootstrap_servers": "k",
            "topics": ["t"],
            "schema": f"case_id INT, id INT, seq INT, name STRING, {note}old_id INT, op STRING",
            "key": "json",
        }
        history = None if self.track is None else "lake://silver/p_history"
        clustered = {"cluster_by": ["case_id", "id"]} if self.is_clustered else {}
        target = {"table": "lake://silver/p", "history_table": history, **clustered}
        return Pipeline.model_validate({"name": "p", "source": source, "change": change, "target": target})


@dataclass(frozen=True)
class Change:
    """One record of a case: what Kafka has, and what the oracle knows of it."""

    case: int
    id: int
    seq: int
    sets: dict[str, str | None] | None  # None: a delete
    old_id: int | None
    partition: int
    offset: int
    at: datetime
    is_tombstone: bool

    def row(self) -> tuple[bytes, bytes | None, str, int, int, datetime]:
        key = {"case_id": self.case, "id": self.id}
        moved = {} if self.old_id is None else {"old_id": self.old_id}
        value = {**key, "seq": self.seq, **moved, **(self.sets or {}), "op": "d" if self.sets is None else "u"}
        raw = None if self.is_tombstone else json.dumps(value).encode()
        return json.dumps(key).encode(), raw, "t", self.partition, self.offset, self.at

    def place(self, order: tuple[str, ...]) -> tuple[Any, ...]:
        given = {"seq": self.seq, "kafka.timestamp": self.at}
        return (*(given[name] for name in order), self.partition, self.offset)


def stream(case: int, chance: Random, semantics: Semantics) -> list[Change]:
    """Few keys, few order values, few names: ties, disorder, deletes and equal states meet often."""
    found: list[Change] = []
    offsets: dict[int, int] = defaultdict(int)
    for _ in range(chance.randint(4, 30)):
        id_ = chance.randint(1, 4)
        partition = 2 * case + id_ % 2
        deleted = chance.random() < 0.2
        sets: dict[str, str | None] | None = None
        if not deleted:
            kept = [name for name in SHOWN if not semantics.patches or chance.random() < 0.6]
            sets = {name: chance.choice(["a", "b", None]) for name in kept}
        old_id = chance.randint(1, 4) if semantics.moves and not deleted and chance.random() < 0.2 else None
        at = _BEGAN + timedelta(milliseconds=chance.randint(0, 5))
        tombstone = semantics.by_tombstone and deleted
        found.append(
            Change(case, id_, chance.randint(0, 6), sets, old_id, partition, offsets[partition], at, tombstone)
        )
        offsets[partition] += chance.randint(1, 2)  # Kafka leaves gaps
    return found


def cut(streams: list[list[Change]], batches: int, chance: Random) -> list[list[Change]]:
    """All streams, cut into batches at random; a partition's records stay in order."""
    steps: list[list[Change]] = [[] for _ in range(batches)]
    for changes in streams:
        cuts = sorted(chance.randint(0, len(changes)) for _ in range(batches - 1))
        for n, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(changes)], strict=True)):
            steps[n] += changes[start:end]
    return steps


# The oracle: what the words of docs/semantics.md say, over all records at once. It knows nothing of the product.


def by_key(changes: list[Change], order: tuple[str, ...]) -> dict[Key, list[Change]]:
    """The changes of every key, oldest first; one that moves a row is a delete of the key that it had."""
    found: dict[Key, list[Change]] = defaultdict(list)
    for change in changes:
        found[change.case, change.id].append(change)
        if change.old_id not in (None, change.id):
            found[change.case, change.old_id].append(replace(change, id=change.old_id, sets=None))
    return {key: sorted(those, key=lambda change: change.place(order)) for key, those in found.items()}


def images(changes: list[Change], patches: bool) -> Iterator[tuple[Change, dict[str, str | None] | None]]:
    """What the row is after each change; None: there is none."""
    row: dict[str, str | None] | None = None
    for change in changes:
        blank = dict.fromkeys(SHOWN)
        row = None if change.sets is None else {**((row or blank) if patches else blank), **change.sets}
        yield change, row


def newest(changes: list[Change], semantics: Semantics) -> dict[Key, dict[str, str | None]]:
    found = {key: list(images(those, semantics.patches)) for key, those in by_key(changes, semantics.order).items()}
    return {key: steps[-1][1] for key, steps in found.items() if steps[-1][1] is not None}


def history(changes: list[Change], semantics: Semantics) -> dict[Key, list[tuple[Any, ...]]]:
    """By key, oldest first: valid_from, valid_to, is_current, and the row."""
    found: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
    for key, those in by_key(changes, semantics.order).items():

        def state(step: tuple[Change, dict[str, str | None] | None]) -> object:
            change, row = step
            if row is None:
                return None
            seen = {**row, "seq": change.seq, "old_id": change.old_id, "op": "u"}
            return [seen[name] for name in (semantics.track or seen)]

        islands = [list(steps) for _, steps in groupby(images(those, semantics.patches), state)]
        starts = [steps[0][0].place(semantics.order)[0] for steps in islands]
        for steps, start, end in zip(islands, starts, [*starts[1:], None], strict=True):
            if steps[-1][1] is not None:
                found[key].append((start, end, end is None, steps[-1][1]))
    return found
