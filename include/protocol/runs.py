"""What one run of a pipeline plans to do: all that Kafka held at its start, batch after batch. Pure.

The end is fixed at the start. So a run ends even if producers never stop. A retry in the middle continues to the same
end. A run that is cleared weeks later finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from include.protocol.batch import BatchKey
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import TopicPartition, offsets_from_json, offsets_to_json


@dataclass(frozen=True)
class WholeRun:
    """A run that its job plans, merges and settles by itself."""

    def to_json(self) -> JsonObject:
        return {"whole_run": True}


@dataclass(frozen=True)
class RunPlan:
    """The batches from `first` on, until every partition stands at `until` (end offsets, exclusive) or beyond."""

    first: BatchKey
    until: Mapping[TopicPartition, int]

    def is_done(self, state: LedgerState) -> bool:
        """Whether nothing is left to do. Also true if the run's generation has ended, since nothing of it can land."""
        return state.generation != self.first.generation or self._reached(state.committed_offsets)

    def batches(self, state: LedgerState) -> list[BatchRecord]:
        """The run's batches, as far as they are planned, up to the one that reaches the run's end."""
        if state.generation != self.first.generation:
            return []
        found: list[BatchRecord] = []
        offsets = state.offsets_before(self.first.batch_id)
        for record in state.batches[self.first.batch_id - state.first_batch_id :]:
            found.append(record)
            offsets |= {r.topic_partition: r.end_offset for r in record.batch.ranges}
            if self._reached(offsets):
                break
        return found

    def _reached(self, offsets: Mapping[TopicPartition, int]) -> bool:
        return all(offsets.get(tp, 0) >= end for tp, end in self.until.items())

    def to_json(self) -> JsonObject:
        return {**self.first._asdict(), "until": offsets_to_json(self.until)}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(BatchKey(data["generation"], data["batch_id"]), offsets_from_json(data["until"]))


Work = BatchKey | RunPlan | WholeRun  # what a job is started for: a batch or a backfill's chunk, or a run
