"""Goes back to a checkpoint: all tables and the offsets together, as one change of generation. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.protocol.checkpoints import Checkpoint
from include.protocol.errors import TerminalError
from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import CHECKPOINT, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.restoring import go_back


@dataclass(frozen=True)
class Restoring:
    """Goes back to one checkpoint of a pipeline.

    Args:
        to: the checkpoint. reason: a person's. started_by: who it is. origin: of the generation; None: it says which
            checkpoint it is.
    """

    coordinator: Coordinator
    to: Checkpoint
    reason: str
    started_by: str
    origin: str | None = None

    def preview(self) -> GenerationStarted:
        """How the generation would begin. Writes nothing. Raises as `restore` does."""
        return self._change.preview(self._decide)

    def restore(self) -> GenerationStarted:
        """Goes back, and returns how the generation begins. Whoever calls it again after it was killed completes it.

        Raises:
            TerminalError: a table cannot go back, or a backfill is under way. TopicRecreated, OffsetsExpired: see
            `go_back`. RetryableError: attempts landed in between, every time; or another change, which was interrupted,
            was completed first.
        """
        return self._change.begin_from(self._origin, self._decide)

    def decide_anew(self) -> GenerationStarted:
        """How the generation begins, by the ledger and the source alone. Raises: see `restore`."""
        state = self.coordinator.ledger.state()
        return self._decide(state, self.coordinator.source(state))

    def _decide(self, state: LedgerState, source: SourceExtent) -> GenerationStarted:
        open_ones = [number for number, record in state.backfills.items() if record.outcome is None]
        if open_ones:
            raise TerminalError(
                what="a backfill is under way, and its rows would be taken back in part",
                where=f"{self.to.pipeline} backfill {open_ones[0]}",
                expected="backfills that have ended",
                found="one that has not",
                action=f"wait for its end, or `lakemark backfill {self.to.pipeline} --cancel {open_ones[0]}`; nothing "
                "was changed",
            )
        first = FirstOffsets.of(self.coordinator.ledger.events(), state)
        return go_back(
            state, self.to, source, first=first, origin=self._origin, reason=self.reason, started_by=self.started_by
        )

    @property
    def _origin(self) -> str:
        return self.origin or f"{CHECKPOINT}{self.to.name}"

    @property
    def _change(self) -> GenerationChange:
        return GenerationChange(self.coordinator, create_target=lambda: None)
