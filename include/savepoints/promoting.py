"""Cuts over from one pipeline to another that began as its clone: both read exactly as far, are compared by their rows,
and then the clone's rows take the place of all rows, in all tables, as one change of generation.

Both pipelines have a turn meanwhile, so nobody else plans in either. If it is killed anywhere and called again, it
reaches the same end: before the fence in the target nothing has changed, and after it the change is completed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from include.checkpoints.reading import Cut
from include.checkpoints.shelf import drop, on_shelf
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.control.turns import end_turn, turn
from include.fault_points import fault_point
from include.jobs.runner import run_job
from include.lake.ledger import Ledger
from include.lake.merge.cloning import clone
from include.lake.merge.snapshot import Snapshot
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.participant import POINT
from include.participants.program import awaits_file, rules_of
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint
from include.protocol.commit_metadata import CLONE_ROLE, FORMAT
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import CUT_OVER, GenerationStarted
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.protocol.planning import Idle, SourceExtent
from include.protocol.restoring import cut_over, verify_no_backfill
from include.protocol.savepoints import Savepoint
from include.savepoints.comparing import Compared, compared
from include.savepoints.making import Making
from include.savepoints.same_program import counterparts, verify_same_program
from include.settings import Settings

_BATCHES_MAX = 10_000
_BEFORE, _LETTERS = "before-", 37  # of a savepoint's name, which has 63 letters at most


@dataclass(frozen=True)
class Promoted:
    """What a cut over has done."""

    started: GenerationStarted
    compared: Sequence[Compared]  # empty: one that was interrupted was completed
    before: str | None  # the savepoint of the tables as they were; None: somebody has dropped it

    def to_json(self) -> JsonObject:
        return {
            "generation": self.started.generation,
            "origin": self.started.origin,
            "tables": [one.to_json() for one in self.compared],
            "before": self.before,
        }


@dataclass(frozen=True)
class Promoting:
    """Cuts over to a clone.

    Args:
        new: the clone. over: the pipeline whose tables' place it takes. accepts: whether tables may differ. reason,
            started_by: a person's. listen: gets what jobs tell. say: is told how far it is. write_file: writes the file
            of `over`; None: it is as it shall be. deliver: see `GenerationStarted`.
    """

    settings: Settings
    new: Pipeline
    over: Pipeline
    accepts: bool
    reason: str
    started_by: str
    listen: Callable[[JsonObject], None]
    say: Callable[[str], None]
    write_file: Callable[[], object] | None = None
    deliver: str | None = None

    def promote(self) -> Promoted:
        """Cuts over.

        Raises:
            TerminalError: the pipelines do not do the same, the tables differ, or a backfill is under way. Whatever a
            batch raises, or a change of generation. RetryableError: see `GenerationChange.begin_from`.
        """
        if (completed := self._completed()) is not None:
            return completed
        self._verify_same()
        with turn(self._ledger(self.over), self._holder), turn(self._ledger(self.new), self._holder):
            for pipeline in (self.over, self.new):
                verify_no_backfill(pipeline.name, self._ledger(pipeline).state())
            self._caught_up()
            cuts = self._cuts()
            found = self._differences(*cuts)
            self._verify_accepted(found)
            # The rows first: what a try has left that was killed is known by them.
            called = f"{self.new.name[:_LETTERS]}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"[:-3]  # to the millisecond
            rows = self._savepoint(self.new, called, self.over)
            before = self._savepoint(self.over, f"{_BEFORE}{called}", None)
            fault_point("promotion.saved")
            try:
                started = self._changed(rows, cuts)
            except LakemarkError:
                self._tidy()
                raise
            self._write_file()
            self._tidy()
        return Promoted(started, found, before.begun.name)

    def preview(self) -> list[Compared]:
        """Compares the tables as they are at both pipelines' newest checkpoints. Writes nothing.

        Raises:
            TerminalError: the pipelines do not do the same; or see `Cut.at`.
        """
        self._verify_same()
        return self._differences(*self._cuts())

    def _verify_same(self) -> None:
        verify_same_program(self.settings, self.new, self.over)

    def _cuts(self) -> tuple[Cut, Cut]:
        """Where the tables of both stand now."""
        return Cut.at(self.settings, self.over, None), Cut.at(self.settings, self.new, None)

    def _differences(self, old: Cut, new: Cut) -> list[Compared]:
        pairs = counterparts(self.over, self.new)
        looks = (compared(old, new, mine=mine, theirs=theirs) for mine, theirs in pairs)
        return [one for one in looks if one is not None]

    def _completed(self) -> Promoted | None:
        """Completes a change that was decided and not ended, or whose file is not written; None: there is none."""
        change = GenerationChange(Coordinator(self.settings, self.over))
        under_way = change.under_way
        if (begun := under_way or self._awaits_file()) is None or begun.cut_over_to != self.new.name:
            return None
        started = begun if under_way is None else self._ended(change, begun)
        self._write_file()
        for pipeline in (self.over, self.new):
            end_turn(self._ledger(pipeline), self._holder)
        self._tidy()
        before = f"{_BEFORE}{begun.savepoint}"
        is_there = any(one.name == before for one in on_shelf(self.settings, self.over))
        return Promoted(started, [], before if is_there else None)

    def _awaits_file(self) -> GenerationStarted | None:
        """A promotion whose rows are there, and that lacks just the file which this one is to write."""
        there = find_pipeline(self.over.name, self.settings.pipelines, self.settings.environment)
        begun = awaits_file(self.settings, there, self._ledger(self.over).state())
        same = self.write_file is not None and begun is not None and begun.rules == rules_of(self.settings, self.over)
        return begun if same else None

    def _ended(self, change: GenerationChange, begun: GenerationStarted) -> GenerationStarted:
        """Ends a change of generation as it was decided."""

        def never(state: LedgerState, source: SourceExtent) -> GenerationStarted:
            raise RetryableError(
                what="another change of generation was finished first",
                where=self.over.name,
                expected=f"one that begins from: {begun.origin}",
                found="another one",
                action="run the same again",
            )

        return change.begin(never)[0]

    def _write_file(self) -> None:
        """Writes the file after the rows. Until then, nobody goes on by the one that is there: see `rules`."""
        fault_point("promotion.changed")
        if self.write_file is not None:
            self.write_file()

    def _tidy(self) -> None:
        """Removes the rows that this promotion has brought, or that tries before it have left; of a try that has
        changed nothing also its savepoint to go back to."""
        done = {one.savepoint for one in self._ledger(self.over).state().generations}
        for one in on_shelf(self.settings, self.over):
            if one.brought_from(self.over) == self.new.name:
                with suppress(TerminalError):  # a change that is under way needs these rows; or there is no other one
                    drop(self.settings, self.over, one.name)
                    if one.name not in done:
                        drop(self.settings, self.over, f"{_BEFORE}{one.name}")

    def _caught_up(self) -> None:
        """Lets both pipelines read up to where the further one stands, in every partition."""
        for _ in range(_BATCHES_MAX):
            states = [self._ledger(pipeline).state() for pipeline in (self.over, self.new)]
            found = [dict(state.committed_offsets) for state in states]
            goal = {tp: max(of.get(tp, 0) for of in found) for tp in {*found[0], *found[1]}}
            behind = next((p for p, of in zip((self.over, self.new), found, strict=True) if of != goal), None)
            if behind is None:
                return
            coordinator = Coordinator(self.settings, behind, until=goal, holder=self._holder)
            planned = coordinator.plan()
            if isinstance(planned, Idle):
                break
            self.say(f"{behind.name}: {planned.batch} on the way to the other one's offsets")
            run_job(self.settings, behind.name, planned.batch.key, self.started_by, listen=self.listen, log=self.say)
            coordinator.settle(planned.batch.key)
        raise TerminalError(
            what="the two pipelines cannot read equally far",
            where=f"{self.new.name} and {self.over.name}",
            expected="the same offsets in every partition",
            found="; ".join(f"{tp}: {found[0].get(tp)} and {found[1].get(tp)}" for tp in sorted(goal)),
            action="Kafka no longer holds what one of them lacks, or reads other partitions: clone a newer savepoint",
        )

    def _verify_accepted(self, found: Sequence[Compared]) -> None:
        for one in found:
            self.say(str(one))
        if self.accepts or all(one.is_equal for one in found):
            return
        raise TerminalError(
            what="the tables differ",
            where=f"{self.over.name} and {self.new.name}",
            expected="the same rows",
            found="; ".join(str(one) for one in found if not one.is_equal),
            action="look at the rows: `lakemark query "
            f"{self.over.name} {self.new.name} 'SELECT ... FROM {self.over.name}.target ...'`; if they are as they "
            "should be, run the same with --accept-differences; nothing was changed",
        )

    def _savepoint(self, pipeline: Pipeline, name: str, shelf: Pipeline | None) -> Savepoint:
        """Keeps what a pipeline has now. Args: shelf: of another pipeline, for which it is a copy; None: a pin."""
        called = {} if shelf is None else {theirs.name: mine.name for mine, theirs in counterparts(shelf, pipeline)}
        return Making(
            self.settings,
            pipeline,
            name,
            is_copy=shelf is not None,
            reason=f"the promotion of {self.new.name} over {self.over.name}",
            created_by=self.started_by,
            say=self.say,
            shelf=shelf,
            called=called,
        ).make()

    def _changed(self, rows: Savepoint, compared_at: tuple[Cut, Cut]) -> GenerationStarted:
        """Cuts over. Args: rows: the clone's, on the shelf of the pipeline whose place they take."""
        coordinator = Coordinator(self.settings, self.over)
        self._verify_stood_still(compared_at[1].checkpoint, rows.checkpoint)
        origin = f"{CUT_OVER}{self.new.name} {rows.begun.name} {rows.checkpoint.name}"
        stands = {one.name: self._stands(one.name, rows) for one in Catalog.of(self.over).participants}
        to = replace(rows.checkpoint, pipeline=self.over.name, point=stands.pop(POINT), positions=stands)
        rules = None if self.write_file is None else rules_of(self.settings, self.over)

        def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
            verify_no_backfill(self.over.name, state)
            # The fence follows the very version of the target that was there before this look.
            for was, now in zip(compared_at, self._cuts(), strict=True):
                self._verify_stood_still(was.checkpoint, now.checkpoint)
            begun = cut_over(state, to, source, origin=origin, reason=self.reason, started_by=self.started_by)
            return replace(begun, rules=rules, deliver=self.deliver)

        return GenerationChange(coordinator).begin_from(origin, decide)

    def _verify_stood_still(self, compared_at: Checkpoint, now: Checkpoint) -> None:
        """Checks that the rows which were compared are those that are there, or that were saved."""
        if (now.key, now.point, now.positions) != (compared_at.key, compared_at.point, compared_at.positions):
            raise RetryableError(
                what="rows have come in between: what was compared and saved is not what is there now",
                where=now.pipeline,
                expected=f"{compared_at.in_words}, version {compared_at.point.version} of its target",
                found=f"{now.in_words}, version {now.point.version}",
                action="nothing was changed: run the same again (a backfill or a reset has come in between)",
            )

    def _stands(self, name: str, rows: Savepoint) -> Position:
        """Where a table stands once it has the clone's rows: that is said of the version that it has now, since what
        comes after it is looked at. A table that is not there yet is made, without rows."""
        [participant] = [one for one in Catalog.of(self.over).participants if one.name == name]
        saved, uri = rows.tables[name], participant.uri(self.settings)
        if saved.folder is None:
            return NOWHERE
        if TableLog.open(uri) is None:
            past = Snapshot.of(Tables.of(self.settings, self.over).saved(rows.begun.name, name))
            said = {"lakemark": FORMAT, "role": CLONE_ROLE, "pipeline": self.over.name}
            clone(replace(past, files={}), uri, str(uuid.uuid4()), {}, said=json.dumps(said))
        log = TableLog.open(uri)
        assert log is not None, "it has just been made"
        return replace(saved.position, version=log.version, identity=log.table_id)

    @property
    def _holder(self) -> str:
        """Whose turn it is. Who runs it again after it was killed goes on with the same turn."""
        return f"the promotion of {self.new.name} over {self.over.name} by {self.started_by}"

    def _ledger(self, pipeline: Pipeline) -> Ledger:
        return Coordinator(self.settings, pipeline).ledger
