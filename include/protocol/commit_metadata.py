"""What a batch's commits say of themselves: the JSON in `userMetadata` of every Delta commit of a batch.

The schema is documented in docs/commit-metadata.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from include.protocol.batch import Batch
from include.protocol.counts import SourceCounts
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonMapping
from include.protocol.ranges import TopicPartition, offsets_from_json, offsets_to_json

FORMAT = 1
_OPTIONAL = ("quality", "set_aside", "history", "truncated")  # of its fields
Role = Literal["target", "archive", "quarantine", "history", "route"]
FENCE_ROLE = "fence"  # the commit that ends a generation, see `generations`
CANCEL_ROLE = "backfill cancelled"  # the commit after which no chunk of a backfill can land
MAINTENANCE_ROLE = "maintenance"  # a commit that changes no row that a reader sees


@dataclass(frozen=True)
class CommitMetadata:
    batch: Batch
    fingerprint: str  # as written; `batch.fingerprint` is computed anew
    role: Role
    counts: SourceCounts
    next_offsets: Mapping[TopicPartition, int]  # of every partition, once this batch has landed (I10)
    attempt_id: str
    code_version: str
    quality: JsonMapping | None = None  # the suite's verdict in short; None: there is no suite
    set_aside: str | None = None  # digest of the records that this attempt quarantines, and why; None: there are none
    history: str | None = None  # of the table: scd2; None: it has one row per key
    truncated: bool | None = None  # a truncate of the batch has deleted rows; None: it has none

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
            },
            separators=(",", ":"),
        )

    @classmethod
    def loads(cls, text: str | None) -> Self | None:
        """None when the text is not of a batch: other writers may use the field for themselves.

        Raises:
            TableDamaged: it says that it is, and does not hold what it must.
        """
        data = own_metadata(text)
        if data is None or data.get("role") in (FENCE_ROLE, CANCEL_ROLE, MAINTENANCE_ROLE):
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
    """The JSON object in a commit's `userMetadata`, if Lakemark wrote it."""
    try:
        data: Any = json.loads(text or "")
    except ValueError:
        return None
    return data if isinstance(data, Mapping) and data.get("lakemark") == FORMAT else None
