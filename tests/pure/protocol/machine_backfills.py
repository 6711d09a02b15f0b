"""Backfills, beside the live pipeline and into a new table that takes the target's place, over the pure functions, as
thin as the real shells."""

from __future__ import annotations

from include.protocol.backfill import Backfill
from include.protocol.backfill_planning import everything
from include.protocol.generations import take_over
from include.protocol.ledger_events import (
    PROMOTION,
    BackfillEnded,
    BackfillPlanned,
    GenerationStarted,
    TablesLeftOut,
)
from include.protocol.ledger_fold import fold
from tests.pure.protocol.machine_batches import Batches
from tests.pure.protocol.machine_world import P, Record, Swap, number, records_within


class Backfills(Batches):
    """A pipeline whose target may be made anew as a whole, and that chunks land beside."""

    def __init__(self) -> None:
        super().__init__()
        self.new_tables: dict[int, frozenset[Record]] = {}  # by the number of the backfill that has made one

    def chunk_lands(self, chunk: int, killed: bool) -> None:
        """`Landing`'s way of a chunk. The file leaves out the same tables from its beginning to its end."""
        state = fold(self.ledger)
        if self.beside.chunk_lands(chunk, state, killed):
            left_out = self.beside.left_out & state.positions.keys()
            self.append([TablesLeftOut(state.generation, str(chunk), tuple(left_out))])
            self.beside.lack_chunks |= left_out

    def fence(self, started: GenerationStarted) -> None:
        super().fence(started)
        self.beside.lack_chunks &= self.beside.left_out  # the others begin anew, also when the event comes later

    def lose_ledger(self, until: int) -> None:
        """Args: until: how many events an old copy holds that took its place."""
        del self.ledger[until:]
        self.ledger_was_lost = True
        self.beside.lack_chunks.clear()

    def rebuild(self, crash: bool, accept: bool = False) -> bool:
        is_new = super().rebuild(crash, accept)
        if is_new:
            self.beside.lack_chunks.clear()  # only the old ledger knew
        return is_new

    def make_new_table(self) -> None:
        """Plans a backfill of everything, and lands its only chunk, in a table that nobody reads yet."""
        state = fold(self.ledger)
        ranges = everything(P, self.ledger, state, self.kafka.extent())
        if not ranges:
            return
        backfill = Backfill(
            P,
            max([state.next_backfill, *(known + 1 for known in self.new_tables)]),
            request_id=f"r{len(self.ledger)}",
            chunks=(tuple(ranges),),
            topic_ids=dict(state.topic_ids),
            cluster_id=state.cluster_id or "",
            into="new",
            next_offsets=state.committed_offsets,
            reason="",
            requested_by="",
        )
        self.append([BackfillPlanned(backfill)])
        self.new_tables[backfill.number] = frozenset(records_within(number(state.topic_ids), ranges))

    def promote(self, crash: bool) -> None:
        """`spark_jobs.commands.promote`, of the newest backfill."""
        state = fold(self.ledger)
        backfill = state.backfill(P, max(state.backfills, default=0))
        self.target.is_there = True
        self.begin_generation(lambda state: take_over(backfill, state, self.kafka.extent(), ""), crash)
        if not crash:
            self.append([BackfillEnded(backfill.number, "swapped", "")])

    def fence_target(self, started: GenerationStarted) -> None:
        super().fence_target(started)
        if started.is_promotion:
            made = int(started.origin.removeprefix(PROMOTION))
            self.target.swaps.append(Swap(self.target.version, made, self.new_tables[made]))
            self.rows_come_and_go()

    def rows_come_and_go(self) -> None:
        """The target's rows are others than the sum of what was applied."""
        self.gone |= {record for _, record in self.applied}
        self.applied = self.target.content()
