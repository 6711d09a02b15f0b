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

FORMAT = 1
Role = Literal["target", "quarantine"]


@dataclass(frozen=True)
class CommitMetadata:
    batch: Batch
    fingerprint: str  # as written; `batch.fingerprint` is computed anew
    role: Role
    counts: SourceCounts
    attempt_id: str
    code_version: str

    @classmethod
    def of(cls, batch: Batch, role: Role, counts: SourceCounts, attempt_id: str, code_version: str) -> Self:
        return cls(batch, batch.fingerprint, role, counts, attempt_id, code_version)

    def dumps(self) -> str:
        return json.dumps(
            {
                "lakemark": FORMAT,
                **self.batch.to_json(),
                "role": self.role,
                "counts": self.counts.to_json(),
                "attempt_id": self.attempt_id,
                "code_version": self.code_version,
            },
            separators=(",", ":"),
        )

    @classmethod
    def loads(cls, text: str | None) -> Self | None:
        """None when the text is not Lakemark's: other writers may use the field for themselves."""
        try:
            data: Any = json.loads(text or "")
        except ValueError:
            return None
        if not isinstance(data, Mapping) or data.get("lakemark") != FORMAT:
            return None
        return cls(
            batch=Batch.from_json(data),
            fingerprint=data["fingerprint"],
            role=data["role"],
            counts=SourceCounts(**data["counts"]),
            attempt_id=data["attempt_id"],
            code_version=data["code_version"],
        )
