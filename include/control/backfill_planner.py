"""Decides which records a backfill reads, in which chunks, and from which source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from include.control.backfill_request import BackfillRequest
from include.control.quarantine import Chosen, Quarantine
from include.control.settling import Settler
from include.lake.delta_tables import open_table
from include.lake.table_log import TableLog
from include.participants.heads import logs_before
from include.protocol.backfill import Backfill, Chunks, Into
from include.protocol.backfill_planning import CHUNKS_MAX, between, everything, of_batches, split, verified_ranges
from include.protocol.errors import TerminalError
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import purged_from, verify_not_purged
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange
from include.protocol.settlement import verify_ledger_not_behind
from include.sources.archive import ArchiveSource
from include.sources.kafka import KafkaSource


@dataclass(frozen=True)
class BackfillPlanner:
    """Plans backfills of one pipeline; records nothing in the ledger."""

    settler: Settler

    def chunk_size(self, request: BackfillRequest) -> int:
        """The most records in a chunk: as the request says, else as many as in one of the pipeline's batches."""
        return request.records_per_chunk_max or self.settler.pipeline.source.limits.records_per_batch_max

    @property
    def _name(self) -> str:
        return self.settler.pipeline.name

    def planned(
        self,
        request: BackfillRequest,
        before: TableLog | None,
        state: LedgerState,
        request_id: str,
        reason: str,
        requested_by: str,
    ) -> Backfill:
        """The backfill for a request. It is not in the ledger yet, but a replay's records are copied into the lake now.

        Args:
            before: the target's log as it was before `state` was read.
        """
        verify_ledger_not_behind(self._name, state, before.marker(self._name, state.generation) if before else None)
        self.verify_not_purged(request.into, request.source == "quarantine")
        made = partial(
            Backfill,
            pipeline=self._name,
            number=state.next_backfill,
            request_id=request_id,
            into=request.into,
            reason=reason,
            requested_by=requested_by,
            pins=self.settler.pins(),
            deliver=request.deliver,
        )
        if request.source == "quarantine":
            name = f"replay-{hashlib.sha256(request_id.encode()).hexdigest()[:16]}"
            chunks, records = self._frozen(request, name)
            backfill = made(
                chunks=chunks,
                topic_ids=dict(state.topic_ids),
                cluster_id=state.cluster_id or "",
                next_offsets={},
                records=name,
                records_total=records,
            )
        else:
            holder = self._holder(request, state)
            source = holder.extent()
            ranges = verified_ranges(self._name, self._ranges(request, state, source, holder), source)
            backfill = made(
                chunks=split(ranges, self.chunk_size(request)),
                topic_ids=dict(source.topic_ids if request.into == "same" else state.topic_ids),
                cluster_id=source.cluster_id,
                next_offsets=state.committed_offsets if request.into == "new" else {},
                from_archive=request.source == "archive",
            )
        logs = [before, *logs_before(self.settler.settings, self.settler.pipeline).values()]
        while self._is_known(backfill, logs):
            backfill = replace(backfill, number=backfill.number + 1)
        return backfill

    def _is_known(self, backfill: Backfill, logs: Sequence[TableLog | None]) -> bool:
        """Whether another backfill had this number, in a ledger that was lost unnoticed: chunks that this one has not
        landed, or that were cancelled, would count for it.

        Args:
            logs: of the pipeline's tables.
        """
        new = TableLog.open(self.settler.tables.backfills / str(backfill.number))
        chunks = [backfill.batch(chunk) for chunk in range(len(backfill.chunks))]
        return any(log.marker_of(chunk) is not None for log in (*logs, new) if log is not None for chunk in chunks)

    def _frozen(self, request: BackfillRequest, name: str) -> tuple[Chunks, int]:
        """Copies a replay's records, so that every attempt reads the same ones, whatever happens to the quarantine.
        Returns the chunks, and how many records there are."""
        uri = self.settler.tables.backfills / name
        return Quarantine.of(self.settler).freeze(chosen(request), uri, self.chunk_size(request))

    def verify_not_purged(self, into: Into, replays: bool) -> None:
        """Raises TerminalError if a backfill or replay could bring back rows whose deletes the target has purged."""
        table = open_table(self.settler.tables.target)
        if table is not None:
            marks = purged_from(table.metadata().configuration)
            instead = partial(self.instead_of_reading_again, replays)
            verify_not_purged(self._name, into, replays, marks=marks, instead=instead)

    def instead_of_reading_again(self, replays: bool = False) -> str:
        """What a person can do with a table whose deletes were purged. Every command in the text works.

        Args:
            replays: whether it is a replay that was refused.
        """
        said = []
        if (command := self._new_table_command()) is not None:
            said.append(f"`{command}` makes a new table from all records, deletes included")
        if replays:
            which = "" if command else ", and no source holds all records any more"
            said.append(f"`lakemark quarantine discard {self._name} --reason ...` discards the waiting records{which}")
        elif command is None:
            said.append("leave it: no source holds all records any more, so nobody can know which rows were deleted")
        return "; or ".join(said) + "; nothing was changed"

    def _new_table_command(self) -> str | None:
        """The command that makes a new table from all records; None if no source holds all of them any more."""
        state = self.settler.ledger.state()
        size = self.settler.pipeline.source.limits.records_per_batch_max
        holders: dict[Literal["kafka", "archive"], str] = {"kafka": "", "archive": " --from-archive"}
        for source, option in holders.items():
            request = BackfillRequest(into="new", source=source)
            try:
                holder = self._holder(request, state)
                extent = holder.extent()
                ranges = verified_ranges(self._name, self._ranges(request, state, extent, holder), extent)
            except TerminalError:
                continue
            least = -(-sum(r.width for r in ranges) // CHUNKS_MAX)
            more = f" --records-per-chunk {least}" if least > size else ""
            return f"lakemark backfill {self._name} --into-new-table{option}{more}"
        return None

    def _holder(self, request: BackfillRequest, state: LedgerState) -> KafkaSource | ArchiveSource:
        """The source that holds the records."""
        if request.source == "archive":
            return ArchiveSource.of(self.settler.settings, self.settler.pipeline, state)
        return KafkaSource(self.settler.pipeline.source)

    def _ranges(
        self, request: BackfillRequest, state: LedgerState, source: SourceExtent, holder: KafkaSource | ArchiveSource
    ) -> Sequence[OffsetRange]:
        if request.into == "new":
            is_archive = request.source == "archive"
            return everything(self._name, self.settler.ledger.events(), state, source, is_archive=is_archive)
        if request.is_everything:  # also what a reset has made the live pipeline read again: changes are order-proof
            return between({}, {}, source)
        if request.ranges:
            return request.ranges
        if request.batches is not None:
            return of_batches(self._name, [record.batch for record in state.batches], *request.batches)
        starts = holder.offsets_at(source, request.since) if request.since else {}
        ends = holder.offsets_at(source, request.until) if request.until else {}
        return between(starts, ends, source)


def chosen(request: BackfillRequest) -> Chosen:
    """The pending records that a replay's request is about."""
    return Chosen(request.ranges, request.rule)
