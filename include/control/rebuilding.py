"""Rebuilds a lost or damaged ledger: `lakemark ledger rebuild`. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from include.control.generation_change import RACES_MAX, GenerationChange
from include.control.targets_word import TargetsWord
from include.fault_points import fault_point
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.heads import heads_after
from include.protocol.batch import FORM
from include.protocol.beginnings import positions_to_begin_with, unnamed_after
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.generations import no_later_than, rebuild
from include.protocol.ledger_events import Event, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.left_out import with_left_out
from include.protocol.settlement import verify_ledger_not_behind
from include.protocol.sinks import SinkStanding, SinkTold


@dataclass(frozen=True)
class LedgerRebuild(GenerationChange):
    """Makes the ledger of one pipeline again, by a change of generation."""

    def rebuild(self, reason: str, started_by: str) -> tuple[GenerationStarted, LakeUri | None]:
        """Rebuilds a lost or damaged ledger from the target's commits, or from its rows if the commits have expired.

        Batches that the target's log still has are recorded as they were. Then a new generation begins, so that no
        attempt that still works with a plan of the lost ledger can land.

        Returns:
            How the new generation begins; where the old ledger lies now.

        Raises:
            TerminalError: the ledger is sound, or there is no target to rebuild from. RetryableError: see `begin`.
        """
        log = self._target_log()
        self._refuse_sound_ledger(log)
        if log is None:
            raise TerminalError(
                what="there is nothing to rebuild the ledger from",
                where=self._name,
                expected=f"the target {self.settler.tables.target}",
                found="no table",
                action="bring the target back; or, if it is lost too, remove what is left of the ledger "
                f"({self.settler.tables.ledger}) and run the pipeline: it begins with what Kafka holds",
            )
        source = self.settler.source()
        for _ in range(RACES_MAX):
            told = TargetsWord(self.settler.settings, self.settler.pipeline, log)
            generation = log.newest_generation(self._name, told.newest_generation_of_rows)
            stands = told.stands(generation)
            self._end_restore(log, stands.begun)
            landed, begun = stands.landed, stands.begun
            rows = {} if landed or begun else told.offsets_of_rows(stands.generation, source)
            started = rebuild(
                generation,
                landed=landed,
                begun=begun,
                offsets_of_rows=rows,
                source=source,
                reason=reason,
                started_by=started_by,
            )
            if stands.restored is not None:
                started = replace(no_later_than(started, stands.newest_offsets), restored_to=stands.restored[1])
            form = landed.metadata.batch.form if landed is not None else begun.form if begun is not None else FORM
            logs = self._logs_before()
            ended = LedgerState(generation=generation, is_whole=False)  # nothing more is known of it
            unnamed = unnamed_after(generation, log.marker(self._name, generation), stands.newest)
            heads = heads_after(self._name, logs, generation, stands.newest, unnamed=unnamed, form=form)
            stood = with_left_out(stands.positions, heads, stands.last)
            self._verify_accepted(started, ended, [*self._lacks(logs, stood, heads, state=ended)])
            lacks = self._lacks(logs, stands.newest, heads, state=ended)  # the target may have gone back, these did not
            positions = positions_to_begin_with(stands.newest, heads, {lack.table for lack in lacks})
            started = self._above_all(started, log, logs, generation=generation, positions=positions)
            events = told.events_before(started, generation)  # before anything is fenced or moved aside
            if self._fence(started).raise_in_all(log, form):
                break
            log = self._target_log()
            assert log is not None
        else:  # without a fence nothing may be recorded
            raise self._lost_every_race()
        fault_point("generation.fenced")
        events = [*events, *self._sinks(started)]
        aside = self.settler.ledger.set_aside()
        fault_point("rebuild.set_aside")
        self.settler.ledger.append(lambda state: events if not state.generations else [])
        return started, aside

    def _sinks(self, started: GenerationStarted) -> Iterator[Event]:
        """What the ledger that is set aside knows of the sinks. One that cannot be read may have held a pause: then
        nothing is delivered until a person says so."""
        try:
            events = self.settler.ledger.events()
            before = fold(events) if events else None
        except LakemarkError:
            before = None
        name = self.settler.pipeline.name
        for sink in self.settler.pipeline.sinks:
            resume = f"`lakemark sinks resume {name} {sink} --reason ...` lets it get what it lacks"
            lost = SinkStanding(paused=f"whether it was paused is lost with the ledger; {resume}")
            standing = lost if before is None else before.sinks.get(sink, SinkStanding())
            yield SinkTold(started.generation, sink, standing, told_by=started.started_by, reason=started.reason)

    def _end_restore(self, log: TableLog, begun: GenerationStarted | None) -> None:
        """Brings the rows of the other tables that a restore or a promotion was to bring, if it was interrupted after
        the target had its own: the fences of a rebuild bring none. Args: begun: the target's newest word."""
        if begun is not None and begun.is_restore and not begun.is_clone:
            self._fence(begun).raise_in_all(log, begun.form, is_decided=True)

    def _refuse_sound_ledger(self, log: TableLog | None) -> None:
        try:
            self._settle_pending()  # it is not sound if the planned batch has landed with other ranges
            state = self.settler.ledger.state()
            verify_ledger_not_behind(self._name, state, log.marker(self._name, state.generation) if log else None)
            self._verify_not_lost(log, state)
        except LakemarkError:
            return
        raise TerminalError(
            what="the ledger is sound",
            where=str(self.settler.tables.ledger),
            expected="one that is lost, damaged, or behind the target",
            found=f"generation {state.generation}, batches to {state.committed_through} committed",
            action=f"nothing was changed; to read offsets again, `lakemark reset {self._name} --reason ...`",
        )
