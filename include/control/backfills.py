"""Previews, records, follows, ends and cancels the backfills of one pipeline. Needs no Spark."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from include.control.backfill_chunks import Chunk, chunk_of, problem_of
from include.control.backfill_planner import BackfillPlanner
from include.control.backfill_preview import preview_of
from include.control.backfill_request import BackfillRequest
from include.control.generation_change import GenerationChange
from include.control.quarantine import Quarantine
from include.control.settling import Settler
from include.control.turns import NotOurTurnError, verify_turn, wait_for_turn
from include.lake.delta_tables import commit_markers
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.program import verify_file_written
from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import FENCE, begun_id
from include.protocol.commit_metadata import BEGUN_ROLE, CANCEL_ROLE, FORMAT
from include.protocol.errors import CountsDisagree, RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import BackfillEnded, BackfillPlanned, Event
from include.protocol.ledger_state import LedgerState

_RACES_MAX = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backfills:
    """The backfills of one pipeline."""

    settler: Settler

    def preview(self, request: BackfillRequest) -> JsonObject:
        """What the backfill would read: see `preview_of`."""
        return preview_of(self.settler, request)

    def plan(self, request: BackfillRequest, request_id: str, reason: str, requested_by: str) -> Backfill:
        """Records the backfill and returns it. The same request is recorded only once, and returned as it was recorded.
        While somebody has a turn, it waits.

        Raises:
            OffsetsExpired: Kafka does not hold all of it. TerminalError: the request makes no sense.
            RetryableError: Kafka does not answer; or see `resume`.
        """
        try:
            return self._planned(request, request_id, reason, requested_by)
        except NotOurTurnError:
            wait_for_turn(self.settler.ledger, log.warning)
            return self.plan(request, request_id, reason, requested_by)

    def _planned(self, request: BackfillRequest, request_id: str, reason: str, requested_by: str) -> Backfill:
        found: Backfill | None = None
        planner = BackfillPlanner(self.settler)
        before = TableLog.open(self.settler.tables.target)  # for the order of reading, see `Coordinator._decide`

        def decide(state: LedgerState) -> list[Event]:
            nonlocal found
            same = [r.backfill for r in state.backfills.values() if r.backfill.request_id == request_id]
            if same:
                found = same[0]
                return []
            verify_turn(state)
            verify_file_written(self.settler.settings, self.settler.pipeline, state)
            found = planner.planned(
                request, before, state, request_id=request_id, reason=reason, requested_by=requested_by
            )
            return [BackfillPlanned(found)]

        state = self.settler.ledger.append(decide)
        assert found is not None
        if state.backfills[found.number].outcome is not None:
            return found
        self.resume(found.number)
        try:
            # Check once more: maintenance looks for backfills only after it has announced its purge.
            planner.verify_not_purged(found.into, found.records is not None)
        except TerminalError:
            self.cancel(found.number, requested_by)
            raise
        return found

    def resume(self, number: int) -> Backfill:
        """Lets the chunks of a backfill run, and returns it.

        A restore or a promotion takes all tables' rows away, and is refused while a backfill is open. Its fence must
        follow the very version of the target of which it was decided: after this commit, who did not see the backfill
        cannot fence any more. Who was faster has to end first, or a chunk would land between the fences of two tables.

        Raises:
            TerminalError: no such backfill. RetryableError: a change of generation is under way; or other writers
            committed first, every time.
        """
        backfill = self.settler.ledger.state().backfill(self._name, number)
        told = {"lakemark": FORMAT, "role": BEGUN_ROLE, "pipeline": self._name, "backfill": number}
        begun = begun_id(self._name, number)
        for _ in range(_RACES_MAX):
            table = TableLog.open(self.settler.tables.target)
            if table is None or table.table.transaction_version(begun) is not None:
                break
            if commit_markers(table.table, {begun: 0}, json.dumps(told), operation="LAKEMARK BACKFILL"):
                break
        else:
            raise self._lost_every_race(self.settler.tables.target, "run the same again")
        change = GenerationChange(self.settler)
        if change.is_under_way:
            raise RetryableError(
                what="a change of generation is under way, and a chunk would land between its tables",
                where=f"{self._name} backfill {number}",
                expected="one that has ended",
                found="a fence in the target, and nothing in the ledger",
                action="let whoever changes it come to an end, or run that command again if it was interrupted; then "
                f"`lakemark backfill {self._name} --resume {number}` (or clear the task)",
            )
        return backfill

    def chunks(self, backfill: Backfill) -> list[Chunk]:
        """The progress of every chunk, from the table's own markers.

        Raises:
            BatchMismatch: a commit of the table is not what was planned.
        """
        table = TableLog.open(self._table(backfill))
        if table is None:
            return [Chunk(number, ranges, "waiting") for number, ranges in enumerate(backfill.chunks)]
        commits = table.landed_commits(backfill.pipeline, backfill.generation)
        by_chunk = {commit.metadata.batch.batch_id: commit for commit in commits}
        return [chunk_of(backfill.batch(n), table, by_chunk.get(n)) for n in range(len(backfill.chunks))]

    def verify_landed(self, backfill: Backfill) -> list[Chunk]:
        """Verifies that every chunk has landed as it was planned, and returns the chunks.

        Raises:
            RetryableError: some have not landed. BatchMismatch: as `chunks`. CountsDisagree: the table is to take the
            target's place, and the counts of a chunk's commit do not add up.
        """
        chunks = self.chunks(backfill)
        missing = [c.chunk for c in chunks if c.state != "landed"]
        if missing:
            some = ", ".join(map(str, missing[:10])) + (" ..." if len(missing) > 10 else "")
            raise RetryableError(
                what="chunks of the backfill have not landed",
                where=f"{backfill.pipeline} backfill {backfill.number}",
                expected=f"all {len(chunks)} chunks",
                found=f"{len(missing)} missing: {some}",
                action=f"clear their tasks, or `lakemark backfill {backfill.pipeline} --resume {backfill.number}`",
            )
        problem = problem_of(chunks)
        if problem is not None and backfill.into == "new":
            raise CountsDisagree(
                what=problem.what,
                where=problem.where,
                expected=problem.expected,
                found=problem.found,
                action="the new table may hold rows twice or miss some, so it does not take the target's place: "
                f"`lakemark backfill {backfill.pipeline} --cancel {backfill.number}`, and ask for another one",
            )
        return chunks

    def finish(self, backfill: Backfill, promote: Callable[[], None], finished_by: str) -> list[Chunk]:
        """Finishes a backfill whose chunks have all landed: promotes a new table, resolves a replay's records, and
        records the end. A second call changes nothing.

        Args:
            promote: puts the new table in the target's place, and records the end.

        Raises:
            RetryableError, BatchMismatch, CountsDisagree: as `verify_landed`. A backfill into the target itself raises
            CountsDisagree too, after its end is recorded.
        """
        if self.settler.backfill_has_ended(backfill.number):
            return self.chunks(backfill) if backfill.into == "same" else []  # a table that was promoted is gone
        chunks = self.verify_landed(backfill)
        if backfill.into == "new":
            promote()
            return chunks
        if backfill.records is not None:
            self.quarantine.settle_replay(backfill, finished_by)
        self.end(backfill.number, "applied", finished_by)
        if (problem := problem_of(chunks)) is not None:
            raise problem
        return chunks

    def end(self, number: int, outcome: BackfillOutcome, ended_by: str) -> None:
        """Records that the backfill has ended. A second call changes nothing."""

        def decide(state: LedgerState) -> list[Event]:
            record = state.backfills.get(number)
            return [BackfillEnded(number, outcome, ended_by)] if record and record.outcome is None else []

        self.settler.ledger.append(decide)

    def cancel(self, number: int, cancelled_by: str) -> list[Chunk]:
        """Cancels a backfill: no more chunks can land. Chunks that have landed stay (they are order-proof).

        Raises:
            FencedGeneration: it was cancelled or promoted before. TerminalError: no such backfill.
            RetryableError: other writers committed first, every time.
        """
        backfill = self.settler.ledger.state().backfill(self._name, number)
        told = {"lakemark": FORMAT, "role": CANCEL_ROLE, "pipeline": self._name, "backfill": number, "by": cancelled_by}
        for _ in range(_RACES_MAX):
            table = TableLog.open(self._table(backfill))
            waiting = [c.chunk for c in self.chunks(backfill) if c.state == "waiting"]
            fences = {backfill.batch(chunk).app_id: FENCE for chunk in waiting}
            if table is None or not fences or commit_markers(table.table, fences, json.dumps(told)):
                break
        else:
            raise self._lost_every_race(self._table(backfill), "cancel it again")
        # After the point, which decides: a chunk that still works may not begin in another table either.
        for participant in Catalog.of(self.settler.pipeline).before:
            uri = participant.uri(self.settler.settings)
            while (other := TableLog.open(uri)) and not commit_markers(other.table, fences, json.dumps(told)):
                pass
        if backfill.records is not None:
            self.quarantine.settle_replay(backfill, cancelled_by)  # those of the chunks that have landed
        self.end(number, "cancelled", cancelled_by)
        return self.chunks(backfill)

    def was_cancelled(self, number: int) -> bool:
        record = self.settler.ledger.state().backfills.get(number)
        return record is not None and record.outcome == "cancelled"

    def _lost_every_race(self, table: LakeUri, action: str) -> RetryableError:
        return RetryableError(
            what="other writers committed first, every time",
            where=str(table),
            expected=f"one commit in {_RACES_MAX} tries",
            found="none",
            action=action,
        )

    @property
    def quarantine(self) -> Quarantine:
        """The quarantine as it is now."""
        return Quarantine.of(self.settler)

    @property
    def _name(self) -> str:
        return self.settler.pipeline.name

    def _table(self, backfill: Backfill) -> LakeUri:
        return self.settler.tables.target_of(backfill)
