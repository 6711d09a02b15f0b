"""The JSON that every Delta commit of a batch carries in `userMetadata`. docs/commit-metadata.md has the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from include.protocol.batch import Batch
from include.protocol.counts import SourceCounts
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonMapping
from include.protocol.participants import Positions, positions_from_json, positions_to_json
from include.protocol.ranges import TopicPartition, offsets_from_json, offsets_to_json

FORMAT = 1
# Fields that may be missing.
_OPTIONAL = ("quality", "set_aside", "history", "truncated", "digest", "revision", "made_from")
Role = str  # of a participant: see `include.participants`
FENCE_ROLE = "fence"  # the commit that ends a generation (see `generations`)
BEGUN_ROLE = "backfill begun"  # whoever takes the table's rows away looks for open backfills before this, or sees one
CANCEL_ROLE = "backfill cancelled"  # after this commit, no chunk of the backfill can land
MAINTENANCE_ROLE = "maintenance"  # this commit changes no row that a reader sees
CLONE_ROLE = "clone"  # the first commit of a table that began with the rows of another pipeline's savepoint
_OF_NO_BATCH = (FENCE_ROLE, BEGUN_ROLE, CANCEL_ROLE, MAINTENANCE_ROLE, CLONE_ROLE)


@dataclass(frozen=True)
class CommitMetadata:
    batch: Batch
    fingerprint: str  # as written; `batch.fingerprint` is computed again
    role: Role
    counts: SourceCounts
    next_offsets: Mapping[TopicPartition, int]  # in every partition, once this batch has landed (I10)
    attempt_id: str
    code_version: str
    quality: JsonMapping | None = None  # a summary of the suite's verdict; None: there is no suite
    set_aside: str | None = None  # digest of what this attempt quarantines, and why; None: nothing
    history: str | None = None  # scd2; None: the table has one row per key
    truncated: bool | None = None  # a truncate in the batch has deleted rows; None: there was none
    digest: str | None = None  # of what the batch writes in this table, and of the program; None: an older Lakemark
    revision: int | None = None  # how often the batch was written anew in this table; None: never
    made_from: int | None = None  # the version that a Replace started from, -1: from nothing; None: rows were added
    positions: Positions | None = None  # in the point's commit: where all other tables stand after the batch

    @classmethod
    def of(
        cls,
        batch: Batch,
        role: Role,
        counts: SourceCounts,
        next_offsets: Mapping[TopicPartition, int],
        attempt_id: str,
        code_version: str,
        quality: JsonMapping | None = None,
        set_aside: str | None = None,
        of_history: bool = False,
        truncated: bool = False,
    ) -> Self:
        return cls(
            batch=batch,
            fingerprint=batch.fingerprint,
            role=role,
            counts=counts,
            next_offsets=next_offsets,
            attempt_id=attempt_id,
            code_version=code_version,
            quality=quality,
            set_aside=set_aside,
            history="scd2" if of_history else None,
            truncated=truncated or None,
        )

    @property
    def of_history(self) -> bool:
        return self.history == "scd2"

    def dumps(self) -> str:
        return json.dumps(
            {
                "lakemark": FORMAT,
                **self.batch.to_json(),
                "role": self.role,
                "counts": self.counts.to_json(),
                "next_offsets": offsets_to_json(self.next_offsets),
                "attempt_id": self.attempt_id,
                "code_version": self.code_version,
                **{name: value for name in _OPTIONAL if (value := getattr(self, name)) is not None},
                **({} if self.positions is None else {"positions": positions_to_json(self.positions)}),
            },
            separators=(",", ":"),
        )

    @classmethod
    def loads(cls, text: str | None) -> Self | None:
        """Reads `userMetadata`. None if no batch wrote it: other writers may use the field too.

        Raises:
            TableDamaged: Lakemark wrote it for a batch, and a field is missing or wrong.
        """
        data = own_metadata(text)
        if data is None or data.get("role") in _OF_NO_BATCH:
            return None
        try:
            return cls(
                batch=Batch.from_json(data),
                fingerprint=data["fingerprint"],
                role=data["role"],
                counts=SourceCounts(**data["counts"]),
                next_offsets=offsets_from_json(data["next_offsets"]),
                attempt_id=data["attempt_id"],
                code_version=data["code_version"],
                **{name: data.get(name) for name in _OPTIONAL},
                positions=positions_from_json(data.get("positions")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TableDamaged(
                what="a commit's metadata is not as Lakemark writes it",
                where=f"userMetadata of {data.get('pipeline')} batch {data.get('batch_id')}",
                expected=f"format {FORMAT} of docs/commit-metadata.md",
                found=f"{type(error).__name__}: {error}",
                action="the table's log was edited or damaged: restore the file from a copy",
            ) from error


def own_metadata(text: str | None) -> JsonMapping | None:
    """The JSON object in a commit's `userMetadata`; None if Lakemark did not write it."""
    try:
        data: Any = json.loads(text or "")
    except ValueError:
        return None
    return data if isinstance(data, Mapping) and data.get("lakemark") == FORMAT else None
