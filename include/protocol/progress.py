"""Where a sink outside the lake stands. Pure.

The log of the point's table is the write-ahead log of every sink. Its progress is a version of that table rather than a
batch, since chunks of backfills, replays and restores land between batches, under numbers of their own. The sink keeps
it in the same transaction as the rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

from include.protocol.batch import BatchKey
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.participants import NEVER


def batch_in_words(key: BatchKey) -> str:
    """A batch for people; a negative generation is a backfill's."""
    if key.generation < 0:
        return f"backfill {-key.generation} chunk {key.batch_id}"
    return f"generation {key.generation} batch {key.batch_id}"


@dataclass(frozen=True)
class Progress:
    """A sink has got everything up to a version of a table."""

    table_id: str
    version: int
    generation: int = 0  # of the newest batch in it; 0: it has none
    batch_id: int = NEVER
    attempt_id: str | None = None  # whose commit of that batch it is, where it matters
    shape: str | None = None  # where the rows are, and in which columns

    @property
    def batch(self) -> BatchKey:
        """The newest batch in it."""
        return BatchKey(self.generation, self.batch_id)

    @property
    def in_words(self) -> str:
        newest = f", {batch_in_words(self.batch)}" if self.generation else ""
        return f"version {self.version} of table {self.table_id}{newest}"

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(**data)
