"""Goes back to a checkpoint: all tables and the offsets together, as one change of generation. Needs no Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from include.checkpoints.effect import Effect, effect_of, verify_possible
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.control.turns import turn
from include.protocol.checkpoints import Checkpoint
from include.protocol.deliveries import telling
from include.protocol.errors import OffsetsExpired
from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import CHECKPOINT, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.reading_began import reading_began
from include.protocol.restoring import go_back, verify_no_backfill


@dataclass(frozen=True)
class Restoring:
    """Goes back to one checkpoint of a pipeline.

    Args:
        to: the checkpoint. reason: a person's. started_by: who it is. origin: of the generation; None: it says which
            checkpoint it is. first: of a clone: where the reading of these rows began. rules, deliver: see
            `GenerationStarted`.
    """

    coordinator: Coordinator
    to: Checkpoint
    reason: str
    started_by: str
    origin: str | None = None
    first: FirstOffsets | None = None
    rules: str | None = None
    deliver: str | None = None

    def preview(self) -> Effect:
        """What would change. Writes nothing. Raises as `restore` does."""
        started = self._change.preview(self._decide)
        coordinator = self.coordinator
        state = coordinator.ledger.state()
        found = effect_of(coordinator.settings, coordinator.pipeline, started, state=state, to=self.to)
        verify_possible(self.to.pipeline, [table.verdict for table in found.tables])
        return found

    def restore(self) -> GenerationStarted:
        """Goes back, and returns how the generation begins. Whoever calls it again after it was killed completes it.

        Raises:
            TerminalError: a table cannot go back, or the pipeline file cannot go on with it; a backfill is under way.
            TopicRecreated, OffsetsExpired: see `go_back`. RetryableError: attempts landed in between, every time; or
            another change, which was interrupted, was completed first.
        """
        with self._turn():
            if not self.is_under_way:
                self.preview()
            return self._change.begin_from(self._origin, self._decide)

    def decide_anew(self) -> GenerationStarted:
        """How the generation begins, by the ledger and the source alone. Raises: see `restore`."""
        state = self.coordinator.ledger.state()
        return self._decide(state, self.coordinator.source(state))

    def _decide(self, state: LedgerState, source: SourceExtent) -> GenerationStarted:
        verify_no_backfill(self.to.pipeline, state)
        first = self.first or reading_began(self.coordinator.ledger.events(), state)
        try:
            started = go_back(
                state, self.to, source, first=first, origin=self._origin, reason=self.reason, started_by=self.started_by
            )
            return telling(replace(started, first=self.first, rules=self.rules), state, self.deliver)
        except OffsetsExpired as error:
            raise self._with_the_archive(error) from error

    def _with_the_archive(self, error: OffsetsExpired) -> OffsetsExpired:
        """The same error, with a choice more if an archive holds what Kafka has lost."""
        if self.coordinator.pipeline.archive is None:
            return error
        return OffsetsExpired(
            what=error.what,
            where=error.where,
            expected=error.expected,
            found=f"{error.found}; the archive holds what was read of them",
            action=f"{error.action}; or leave the offsets where they are, and let other rules make the rows anew from "
            f"the archive: `lakemark run {self.to.pipeline} --from-archive`",
        )

    def _turn(self) -> AbstractContextManager[None]:
        """No maintenance removes the checkpoint's files meanwhile. (What a savepoint needs it leaves anyway.)"""
        if self.origin is not None:
            return nullcontext()
        holder = f"going back to {self.to.in_words}"  # who runs it again after it was killed has the same
        return turn(self.coordinator.ledger, holder, over="files")

    @property
    def is_under_way(self) -> bool:
        """Whether a change of generation was decided, and is to be completed."""
        return self._change.is_under_way

    @property
    def _origin(self) -> str:
        return self.origin or f"{CHECKPOINT}{self.to.name}"

    @property
    def _change(self) -> GenerationChange:
        return GenerationChange(self.coordinator)
