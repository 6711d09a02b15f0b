"""Backfills of one pipeline: what one would read, recording it, how far it is, its end. Needs no Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from include.control.quarantine import Chosen, Quarantine
from include.control.settling import Settler
from include.lake.delta_tables import commit_markers, open_table
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.backfill import Backfill, BackfillOutcome, Into
from include.protocol.backfill_planning import CHUNKS_MAX, between, everything, held, of_batches, split
from include.protocol.batch import FENCE, Batch
from include.protocol.commit_metadata import CANCEL_ROLE, FORMAT
from include.protocol.errors import CountsDisagree, RetryableError, TerminalError
from include.protocol.guard import verify_fingerprint
from include.protocol.ledger_events import BackfillEnded, BackfillPlanned, Event
from include.protocol.ledger_state import BatchRecord, LedgerState
from include.protocol.maintenance import purged_from, verify_not_purged
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit, counts_of, verify_ledger_not_behind
from include.sources.archive import ArchiveSource
from include.sources.kafka import KafkaSource

_RACES_MAX = 20
_BATCHES_TO_ESTIMATE_FROM = 20


@dataclass(frozen=True)
class BackfillRequest:
    """What somebody wants backfilled. Into the target itself: `ranges`, or a time span, or batches; of the archive also
    none of these, which is everything. Into a new table: everything, so none of these."""

    ranges: Sequence[OffsetRange] = ()
    since: datetime | None = None  # Kafka's timestamps, from here on (inclusive)
    until: datetime | None = None  # and to here (exclusive); None: to what Kafka holds now
    batches: tuple[int, int] | None = None  # of the present generation, both inclusive
    into: Into = "same"
    source: Literal["kafka", "quarantine", "archive"] = "kafka"
    rule: str | None = None  # of the quarantine: only records that broke this rule
    records_per_chunk_max: int | None = None  # None: as the pipeline's batches

    def __post_init__(self) -> None:
        named = [bool(self.ranges), self.since is not None or self.until is not None, self.batches is not None]
        wanted = 1 if self.into == "same" else 0
        if self.source == "quarantine":
            if named[1] or named[2] or self.into == "new":
                raise _not_so("the replay", "offset ranges, a rule, or neither: the whole quarantine", "something else")
        elif self.rule is not None:
            raise _not_so("the backfill", "no rule: only records of the quarantine broke one", self.rule)
        elif sum(named) != wanted and not (self.source == "archive" and not any(named)):
            expected = "exactly one of offset ranges, a time span, batches"
            raise _not_so(
                "the backfill",
                expected if wanted else "no range: a table that takes the target's place must hold everything",
                f"{sum(named)} of them",
            )
        if self.since and self.until and self.since >= self.until:
            raise _not_so("the time span", "a start before its end", f"{self.since} to {self.until}")
        if self.records_per_chunk_max is not None and self.records_per_chunk_max < 1:
            raise _not_so("records per chunk", "at least 1", str(self.records_per_chunk_max))

    @property
    def is_everything(self) -> bool:
        """Whether it names no part of what is held."""
        return not (self.ranges or self.since or self.until or self.batches)


@dataclass(frozen=True)
class Chunk:
    """How far one chunk is."""

    chunk: int
    ranges: tuple[OffsetRange, ...]
    state: Literal["waiting", "landed", "cancelled"]
    table_version: int | None = None
    counts: Mapping[str, int] | None = None
    problem: CountsDisagree | None = None  # its numbers do not add up

    def to_json(self) -> dict[str, Any]:
        ranges = [r.as_argument() for r in self.ranges]
        return {"chunk": self.chunk, "ranges": ranges, "state": self.state} | {
            "table_version": self.table_version,
            "counts": self.counts,
        }


@dataclass(frozen=True)
class Backfills:
    settler: Settler

    def preview(self, request: BackfillRequest) -> dict[str, Any]:
        """What it would read, as data: ranges, records_max, chunks, into, estimated_seconds (one chunk after the other;
        null while no batch has told how long records take). Writes nothing. Raises as `plan`."""
        if request.source == "quarantine":
            return self._preview_of_replay(request)
        before = TableLog.open(self.settler.tables.target)
        state = self.settler.ledger.state()
        planned = self._planned(request, before, state, "preview", "", "")
        seconds = _seconds_per_record(state.batches)
        return {
            "pipeline": planned.pipeline,
            "into": planned.into,
            "ranges": [r.as_argument() for r in _whole(planned)],
            "records_max": planned.records_max,
            "chunks": len(planned.chunks),
            "estimated_seconds": None if seconds is None else round(seconds * planned.records_max, 1),
        }

    def plan(self, request: BackfillRequest, request_id: str, reason: str, requested_by: str) -> Backfill:
        """Records the backfill, and returns it; the same request is recorded once and comes back as it was.

        Raises:
            OffsetsExpired: Kafka does not hold all of it. TerminalError: the request makes no sense.
            RetryableError: Kafka does not answer.
        """
        found: Backfill | None = None
        before = TableLog.open(self.settler.tables.target)  # see `Coordinator._decide`: what is read when

        def decide(state: LedgerState) -> list[Event]:
            nonlocal found
            same = [r.backfill for r in state.backfills.values() if r.backfill.request_id == request_id]
            found = same[0] if same else self._planned(request, before, state, request_id, reason, requested_by)
            return [] if same else [BackfillPlanned(found)]

        state = self.settler.ledger.append(decide)
        assert found is not None
        if state.backfills[found.number].outcome is not None:
            return found
        try:
            # Once more: maintenance looks for backfills after it has told of its purge.
            self._verify_not_purged(found.into, found.records is not None)
        except TerminalError:
            self.cancel(found.number, requested_by)
            raise
        return found

    def chunks(self, backfill: Backfill) -> list[Chunk]:
        """How far every chunk is, by the table's own markers.

        Raises:
            BatchMismatch: a commit of the table is not what was planned.
        """
        log = TableLog.open(self._table(backfill))
        if log is None:
            return [Chunk(number, ranges, "waiting") for number, ranges in enumerate(backfill.chunks)]
        commits = log.landed_commits(backfill.pipeline, backfill.generation)
        by_chunk = {commit.metadata.batch.batch_id: commit for commit in commits}
        return [_chunk(backfill.batch(n), log, by_chunk.get(n)) for n in range(len(backfill.chunks))]

    def verify_landed(self, backfill: Backfill) -> list[Chunk]:
        """All chunks, once it is sure that every one has landed as it was planned.

        Raises:
            RetryableError: some have not. BatchMismatch: as `chunks`. CountsDisagree: the table is to take the target's
            place, and the numbers of a chunk's commit do not add up.
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
        problem = _problem_of(chunks)
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
        """What follows when all chunks have landed: a new table takes the target's place, a replay's records are
        resolved, the end is recorded. Doing so again changes nothing.

        Args:
            promote: puts the new table in the target's place, and records the end.

        Raises:
            RetryableError, BatchMismatch, CountsDisagree: as `verify_landed`; the last one also of a backfill into the
            target itself, once its end is recorded.
        """
        chunks = self.verify_landed(backfill)
        if self.settler.ledger.state().backfills[backfill.number].outcome is not None:
            return chunks
        if backfill.into == "new":
            promote()
            return chunks
        if backfill.records is not None:
            self.quarantine.settle_replay(backfill, finished_by)
        self.end(backfill.number, "applied", finished_by)
        if (problem := _problem_of(chunks)) is not None:
            raise problem
        return chunks

    def end(self, number: int, outcome: BackfillOutcome, ended_by: str) -> None:
        """Records that the backfill is at its end; doing so again changes nothing."""

        def decide(state: LedgerState) -> list[Event]:
            record = state.backfills.get(number)
            return [BackfillEnded(number, outcome, ended_by)] if record and record.outcome is None else []

        self.settler.ledger.append(decide)

    def cancel(self, number: int, cancelled_by: str) -> list[Chunk]:
        """After this no chunk can land that has not landed; those that have stay (they are order-proof).

        Raises:
            FencedGeneration: it was cancelled or swapped before. TerminalError: no such backfill.
            RetryableError: commits of others got in between, again and again.
        """
        backfill = self.settler.ledger.state().backfill(self._name, number)
        told = {"lakemark": FORMAT, "role": CANCEL_ROLE, "pipeline": self._name, "backfill": number, "by": cancelled_by}
        for _ in range(_RACES_MAX):
            log = TableLog.open(self._table(backfill))
            waiting = [c.chunk for c in self.chunks(backfill) if c.state == "waiting"]
            fences = {backfill.batch(chunk).app_id: FENCE for chunk in waiting}
            if log is None or not fences or commit_markers(log.table, fences, json.dumps(told)):
                break
        else:
            raise RetryableError(
                what="commits of others got in between",
                where=str(self._table(backfill)),
                expected=f"one commit in {_RACES_MAX} tries",
                found="none",
                action="cancel it again",
            )
        if backfill.records is not None:
            self.quarantine.settle_replay(backfill, cancelled_by)  # of what has landed
        self.end(number, "cancelled", cancelled_by)
        return self.chunks(backfill)

    @property
    def quarantine(self) -> Quarantine:
        """As it is now."""
        return Quarantine.of(self.settler)

    def _preview_of_replay(self, request: BackfillRequest) -> dict[str, Any]:
        self._verify_not_purged(request.into, replays=True)
        records = Quarantine.of(self.settler, with_bytes=False).count_pending(_chosen(request))
        seconds = _seconds_per_record(self.settler.ledger.state().batches)
        return {
            "pipeline": self._name,
            "into": request.into,
            "ranges": [r.as_argument() for r in request.ranges],
            "records_max": records,
            "chunks": -(-records // self._chunk_size(request)),
            "estimated_seconds": None if seconds is None else round(seconds * records, 1),
        }

    def _chunk_size(self, request: BackfillRequest) -> int:
        return request.records_per_chunk_max or self.settler.pipeline.source.limits.records_per_batch_max

    @property
    def _name(self) -> str:
        return self.settler.pipeline.name

    def _table(self, backfill: Backfill) -> LakeUri:
        return self.settler.tables.target_of(backfill)

    def _planned(
        self,
        request: BackfillRequest,
        before: TableLog | None,
        state: LedgerState,
        request_id: str,
        reason: str,
        requested_by: str,
    ) -> Backfill:
        """Args: before: the target's log as it was before `state` was read."""
        verify_ledger_not_behind(self._name, state, before and before.marker(self._name, state.generation))
        self._verify_not_purged(request.into, request.source == "quarantine")
        about = {
            "pipeline": self._name,
            "number": state.next_backfill,
            "request_id": request_id,
            "into": request.into,
            "reason": reason,
            "requested_by": requested_by,
            "pins": self.settler.pins(),
        }
        if request.source == "quarantine":
            backfill = self._replay(request, state, about)
        else:
            holder = self._holder(request, state)
            source = holder.extent()
            ranges = held(self._name, self._ranges(request, state, source, holder), source)
            backfill = Backfill(
                chunks=split(ranges, self._chunk_size(request)),
                topic_ids=dict(source.topic_ids if request.into == "same" else state.topic_ids),
                cluster_id=source.cluster_id,
                next_offsets=state.committed_offsets if request.into == "new" else {},
                from_archive=request.source == "archive",
                **about,
            )
        while before is not None and _has_marker(before, backfill):  # of a ledger whose loss nobody could notice
            backfill = replace(backfill, number=backfill.number + 1)
        return backfill

    def _replay(self, request: BackfillRequest, state: LedgerState, about: Mapping[str, Any]) -> Backfill:
        """A replay, its records copied: whatever becomes of the quarantine, every attempt reads the same ones."""
        name = f"replay-{hashlib.sha256(about['request_id'].encode()).hexdigest()[:16]}"
        uri = self.settler.tables.backfills / name
        chunks, records = self.quarantine.freeze(_chosen(request), uri, self._chunk_size(request))
        return Backfill(
            chunks=chunks,
            topic_ids=dict(state.topic_ids),
            cluster_id=state.cluster_id or "",
            next_offsets={},
            records=name,
            records_total=records,
            **about,
        )

    def _verify_not_purged(self, into: Into, replays: bool) -> None:
        table = open_table(self.settler.tables.target)
        if table is not None:
            marks = purged_from(table.metadata().configuration)
            verify_not_purged(self._name, into, replays, marks, lambda: self.instead_of_reading_again(replays))

    def instead_of_reading_again(self, replays: bool = False) -> str:
        """What a person can do about a table whose deletes were purged: what is said here works.

        Args:
            replays: what is refused is a replay.
        """
        said = []
        if (command := self._made_anew()) is not None:
            said.append(f"`{command}` makes the table anew from all records, deletes too")
        if replays:
            which = "" if command else ", and nobody holds all records any more"
            said.append(f"`lakemark quarantine discard {self._name} --reason ...` ends the records' waiting{which}")
        elif command is None:
            said.append("leave it: nobody holds all records any more, so no one can tell which rows are deleted")
        return "; or ".join(said) + "; nothing was changed"

    def _made_anew(self) -> str | None:
        """The command that makes a new table of everything; None if nobody holds all of it any more."""
        state = self.settler.ledger.state()
        size = self.settler.pipeline.source.limits.records_per_batch_max
        for source, option in (("kafka", ""), ("archive", " --from-archive")):
            request = BackfillRequest(into="new", source=source)  # type: ignore[arg-type]
            try:
                holder = self._holder(request, state)
                extent = holder.extent()
                ranges = held(self._name, self._ranges(request, state, extent, holder), extent)
            except TerminalError:
                continue
            least = -(-sum(r.width for r in ranges) // CHUNKS_MAX)
            more = f" --records-per-chunk {least}" if least > size else ""
            return f"lakemark backfill {self._name} --into-new-table{option}{more}"
        return None

    def _holder(self, request: BackfillRequest, state: LedgerState) -> KafkaSource | ArchiveSource:
        """Who holds the records."""
        if request.source == "archive":
            return ArchiveSource.of(self.settler.settings, self.settler.pipeline, state)
        return KafkaSource(self.settler.pipeline.source)

    def _ranges(
        self, request: BackfillRequest, state: LedgerState, source: SourceExtent, holder: KafkaSource | ArchiveSource
    ) -> Sequence[OffsetRange]:
        if request.into == "new" or request.is_everything:
            return everything(self._name, self.settler.ledger.events(), state, source)
        if request.ranges:
            return request.ranges
        if request.batches is not None:
            return of_batches(self._name, [record.batch for record in state.batches], *request.batches)
        starts = holder.offsets_at(source, request.since) if request.since else {}
        ends = holder.offsets_at(source, request.until) if request.until else {}
        return between(starts, ends, source)


def _chosen(request: BackfillRequest) -> Chosen:
    return Chosen(request.ranges, request.rule)


def preview_lines(facts: dict[str, Any]) -> Iterator[str]:
    """A preview, for people."""
    seconds = facts["estimated_seconds"]
    yield f"{facts['records_max']:,} records at most, in {facts['chunks']} chunks, " + (
        "into a new table that takes the target's place" if facts["into"] == "new" else "into the target itself"
    )
    yield "no batch tells how long yet" if seconds is None else f"about {seconds:,.0f} s of work, by the last batches"
    yield from (f"  {r}" for r in facts["ranges"])


def _problem_of(chunks: Iterable[Chunk]) -> CountsDisagree | None:
    return next((chunk.problem for chunk in chunks if chunk.problem is not None), None)


def _chunk(batch: Batch, log: TableLog, commit: LandedCommit | None) -> Chunk:
    marker = log.marker_of(batch)
    if marker is None or marker == FENCE:
        return Chunk(batch.batch_id, batch.ranges, "waiting" if marker is None else "cancelled")
    if commit is None:  # Delta's log clean-up has taken it; the marker stays
        return Chunk(batch.batch_id, batch.ranges, "landed")
    verify_fingerprint(batch, commit.metadata.fingerprint)
    landed = Chunk(batch.batch_id, batch.ranges, "landed", commit.table_version)
    try:
        return replace(landed, counts=counts_of(commit, str(batch)).to_json())
    except CountsDisagree as error:
        return replace(landed, problem=error)


def _has_marker(log: TableLog, backfill: Backfill) -> bool:
    """Whether one of its chunks would be taken for another backfill's, which has landed or was cancelled."""
    return any(log.marker_of(backfill.batch(chunk)) is not None for chunk in range(len(backfill.chunks)))


def _whole(backfill: Backfill) -> list[OffsetRange]:
    """The backfill's ranges, one per partition."""
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for ranges in backfill.chunks:
        for r in ranges:
            starts.setdefault(r.topic_partition, r.start_offset)
            ends[r.topic_partition] = r.end_offset
    return [OffsetRange(*tp, start, ends[tp]) for tp, start in sorted(starts.items())]


def _seconds_per_record(records: Sequence[BatchRecord]) -> float | None:
    """What the last batches took, all phases together; None if none can tell."""
    seconds = read = 0.0
    for record in records[-_BATCHES_TO_ESTIMATE_FROM:]:
        applied = [a for a in record.attempts if a.outcome == "applied"]
        if applied and record.commit and record.commit.counts:
            seconds += sum(applied[-1].phase_seconds.values())
            read += record.commit.counts.read
    return seconds / read if read else None


def _not_so(where: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this cannot be backfilled",
        where=where,
        expected=expected,
        found=found,
        action="ask for something else; nothing was changed",
    )
