"""Ends a pipeline's generation and begins the next: `lakemark reset`, `ledger skip`, and whatever
else moves offsets. Needs no Spark.

Order: settle, fence the target (compare-and-swap on the marker that was settled), fence the tables beside it, record in
the ledger. If it is killed anywhere and called again, it reaches the same end: the ledger records what the fence says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace

from include.control.backfill_planner import BackfillPlanner
from include.control.settling import Settler
from include.fault_points import fault_point
from include.lake.delta_tables import commit_markers
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.fence import Commit, Fence, stands_after
from include.participants.heads import Logs, heads_to_begin_with, logs_before, verify_ledger_not_lost
from include.participants.lacks import lacks_of
from include.protocol.acceptance import Lack, lacks_of_the_target, verify_accepted
from include.protocol.batch import FENCE
from include.protocol.beginnings import positions_to_begin_with
from include.protocol.errors import CountsDisagree, RetryableError
from include.protocol.ledger_events import EARLIEST, Event, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import known, told_since
from include.protocol.maintenance import purged_from, verify_reset_not_purged
from include.protocol.participants import Positions
from include.protocol.planning import SourceExtent
from include.protocol.reading_began import reading_began
from include.protocol.restoring import positions_after
from include.protocol.settlement import TargetView, rollback_of, verify_ledger_not_behind

DecideStart = Callable[[LedgerState, SourceExtent], GenerationStarted]
Then = Callable[[LedgerState, GenerationStarted], list[Event]]
RACES_MAX = 20


@dataclass(frozen=True)
class GenerationChange:
    """Changes the generation of one pipeline.

    Args:
        create_target: creates the target's table if there is none, because a fence is a commit of that table; who
            changes the rows of a table that is there needs none.
        fence_target: see `Fence.commit_to_target`. accepted: the tables, by name, with which a person wants to go
            on as they are.
    """

    settler: Settler
    create_target: Callable[[], None] = lambda: None
    fence_target: Commit = commit_markers
    accepted: frozenset[str] = frozenset()

    @property
    def is_under_way(self) -> bool:
        """Whether a change was decided, and is to be completed."""
        log, state = self._target_log(), self.settler.ledger.state()
        return log is not None and log.marker(self._name, state.generation) == FENCE

    @property
    def under_way(self) -> GenerationStarted | None:
        """What was decided and is to be completed; None: nothing, or the fence's metadata has expired."""
        log, state = self._target_log(), self.settler.ledger.state()
        return None if log is None else log.begun_after(self._name, state.generation)

    def preview(self, decide: DecideStart) -> GenerationStarted:
        """How the generation would begin. Writes nothing. Raises as `begin` does."""
        log, state = self._target_log(), self.settler.ledger.state()
        if log is None:
            started = decide(state, self.settler.source(state))
            self._verify_accepted(started, state, self._lacks_of_target(state, None))
            return started
        started = self._decided(decide, log, state)
        self._verify_not_purged(log, state, started)
        self._fence(started).pasts(log)
        return started

    def begin(self, decide: DecideStart, then: Then | None = None) -> tuple[GenerationStarted, bool]:
        """Ends the ledger's generation and begins the one that `decide` returns.

        Args:
            then: more events that the ledger records together with the beginning.

        Returns:
            How the new generation begins; and whether `decide` decided it. False: an interrupted change was completed
            as it had been decided before.

        Raises:
            RetryableError: attempts landed in between, every time.
            TerminalError: it would read changes again whose deletes were purged. Whatever `decide` raises.
            TargetBehindLedger: a table lacks rows, and this would leave it so.
        """
        if self._target_log() is None:
            self.preview(decide)  # what must not be decided makes no table
            self.create_target()
        for _ in range(RACES_MAX):
            if not self.is_under_way:
                self._settle_pending()
            log, state = self._target_log(), self.settler.ledger.state()
            assert log is not None
            marker = log.marker(self._name, state.generation)
            if marker == FENCE:
                begun = log.begun_after(self._name, state.generation)
                if begun is not None and self._fence(begun).raise_in_all(log, state.form, is_decided=True):
                    self._record(begun, then)
                    return begun, False
                # Else the fence's metadata has expired: decide again; the fence stays.
            elif marker is not None and marker > state.committed_through:
                verify_ledger_not_behind(self._name, state, marker)
                continue  # a batch landed after the settling: settle it
            started = self._decided(decide, log, state)
            self._verify_not_purged(log, state, started)
            if self._fence(started).raise_in_all(log, state.form):
                fault_point("generation.fenced")
                self._record(started, then, state.left_out)
                return started, True
        raise self._lost_every_race()

    def begin_from(self, origin: str, decide: DecideStart) -> GenerationStarted:
        """As `begin`, for a caller who needs the generation that it decides. Args: origin: that one's.

        Raises:
            RetryableError: another change had been interrupted, and was finished instead; or as `begin`.
        """
        started, _ = self.begin(decide)
        if started.origin != origin:
            raise RetryableError(
                what="an interrupted change of generation was finished first",
                where=f"{self._name} generation {started.generation}",
                expected=f"one that begins from: {origin}",
                found=f"one that begins from: {started.origin}",
                action="run the same again (or rerun the task)",
            )
        return started

    def begin_without_target(self, decide: DecideStart, then: Then) -> None:
        """Begins a generation after one of which nothing can have landed, because there is no target yet."""
        state = self.settler.ledger.state()
        heads = heads_to_begin_with(self._name, self._logs_before(), state)
        started = replace(decide(state, self.settler.source(state)), positions=heads)
        self._fence(started).raise_before(state.form)
        self._record(started, then, state.left_out)

    def _decided(self, decide: DecideStart, log: TableLog, state: LedgerState) -> GenerationStarted:
        """The decision, with what the tables say. A ledger that was lost does not know where the pipeline stands:
        records would be passed over (I7).

        Args:
            log: as read before `state`.
        """
        self._verify_not_lost(log, state)
        started = decide(state, self.settler.source(state))
        self.settler.verify_read_again(started)
        logs = self._logs_before()
        if started.is_restore:  # whatever the tables are now, the fences bring their rows
            ids = {name: None if found is None else found.table_id for name, found in logs.items()}
            stood = positions_after(started.positions or {}, ids)
            found = self._above_all(started, log, logs, generation=state.generation, positions=stood)
            return replace(found, table_id=started.table_id or log.table_id)
        heads = heads_to_begin_with(self._name, logs, state)
        view = log.view(self._name, state)
        lacks = [*self._lacks(logs, known(state, heads), heads, state=state)]
        self._verify_accepted(started, state, [*self._lacks_of_target(state, view), *lacks])
        positions = positions_to_begin_with(state.positions, heads, {lack.table for lack in lacks})
        rollback = rollback_of(state, view)
        return replace(
            self._above_all(started, log, logs, generation=state.generation, positions=positions),
            restored_to=rollback.back_to if rollback is not None else None,
        )

    def _lacks(self, logs: Logs, named: Positions, heads: Positions, state: LedgerState) -> Iterator[Lack]:
        return lacks_of(self._name, logs, named, heads=heads, state=state)

    def _lacks_of_target(self, state: LedgerState, view: TargetView | None) -> list[Lack]:
        point = Catalog.of(self.settler.pipeline).point
        return lacks_of_the_target(self._name, point.name, state, view)

    def _verify_accepted(self, started: GenerationStarted, state: LedgerState, lacks: Sequence[Lack]) -> None:
        first = reading_began(self.settler.ledger.events(), state) if lacks and started.origin == EARLIEST else None
        gone = first.lost_before_all(started.start_offsets) if first is not None else []
        archive, landing = self.settler.pipeline.archive, self.settler.pipeline.landing_name
        holders = {"archive": archive, "landing": landing}  # of what Kafka has dropped
        verify_accepted(self._name, state, started, lacks, accepted=self.accepted, gone=gone, **holders)

    def _verify_not_lost(self, log: TableLog | None, state: LedgerState) -> None:
        if state.is_fresh:
            verify_ledger_not_lost(self._name, log, self._logs_before())

    def _above_all(
        self, started: GenerationStarted, log: TableLog, logs: Logs, generation: int, positions: Positions
    ) -> GenerationStarted:
        """The decision as it follows this version of the target. Its number is above all that any table knows."""
        tables = filter(None, (log, *logs.values()))
        newest = max(table.newest_generation_after(self._name, generation) for table in tables)
        return replace(
            started,
            generation=max(newest + 1, started.generation),
            target_version=log.version + started.brings_rows,  # by its fence
            table_id=log.table_id,
            positions=positions,
        )

    def _logs_before(self) -> Logs:
        return logs_before(self.settler.settings, self.settler.pipeline)

    @property
    def _name(self) -> str:
        return self.settler.pipeline.name

    def _target_log(self) -> TableLog | None:
        return TableLog.open(self.settler.tables.target)

    def _lost_every_race(self) -> RetryableError:
        """The error when a batch landed before the fence in every one of `RACES_MAX` tries."""
        return RetryableError(
            what="attempts kept landing while the generation was being ended",
            where=self._name,
            expected=f"one fence in {RACES_MAX} tries",
            found="none",
            action="pause the pipeline's DAG and try again",
        )

    def _settle_pending(self) -> None:
        """Settles what has landed. If counts do not add up, the commit is recorded all the same and `audit` reports it.
        That does not stop the change."""
        with suppress(CountsDisagree):
            self.settler.settle_pending()

    def _verify_not_purged(self, log: TableLog, state: LedgerState, started: GenerationStarted) -> None:
        """Checks the very version of the target that the fence must follow, so that nothing is purged in between."""
        marks = purged_from(log.table.metadata().configuration)
        if marks:
            view = log.view(self._name, state)
            back_to = view.restored[1] if view.restored else None
            instead = BackfillPlanner(self.settler).instead_of_reading_again
            verify_reset_not_purged(self._name, state, started, marks=marks, back_to=back_to, instead=instead)

    def _fence(self, started: GenerationStarted) -> Fence:
        return Fence(self.settler.settings, self.settler.pipeline, started, self.fence_target)

    def _record(self, decided: GenerationStarted, then: Then | None, lacking: Set[str] = frozenset()) -> None:
        """Args: lacking: the tables of which the ledger said, when it was decided, that they lack a chunk; without it,
        nobody remembers: a person looks at them once more."""
        fenced = stands_after(self.settler.settings, self.settler.pipeline, decided)

        def decide(state: LedgerState) -> list[Event]:
            if state.generation >= fenced.generation:
                return []
            started = told_since(fenced, state, lacking)
            return [started, *(then(state, started) if then is not None else [])]

        self.settler.ledger.append(decide)
