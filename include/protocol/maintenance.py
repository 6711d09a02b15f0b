"""Decides what maintenance a table needs, which tombstones may go, and what may not be read again afterwards. Pure.

A tombstone keeps an older change from bringing a deleted row back. Once it is purged, nothing does. Then a reset or a
backfill could bring back deleted rows: the older change may lie anywhere (in another partition or topic, before the
delete or after it), and the row stays until the delete is read again, if it ever is. So what is purged is first
recorded with the table (`PURGED`), and from then on nothing is read again into the table itself. A new table that takes
its place holds every delete again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from include.protocol.backfill import Into
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping
from include.protocol.ledger_events import BatchCommitted, BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange, TopicPartition

PURGED = "lakemark.tombstonesPurgedTo"  # table property that holds the marks (see `PurgeMark`)
SMALL_BYTES = 32 * 1024 * 1024
_DELETED_MAX = 0.2  # share of rows that deletion vectors hide; above it, they slow every reader down


@dataclass(frozen=True)
class PurgeMark:
    """Tombstones of records below `offset` of one partition may be gone."""

    topic: str
    topic_id: str | None  # None: any topic that has had the name (older marks have no ids)
    partition: int
    offset: int  # end, exclusive


@dataclass(frozen=True)
class Purgeable:
    """Tombstones of one partition that are old enough: for records below `offset`, in rows of these generations.

    Rows of a later generation are not covered: offsets alone do not identify a record, since a re-created topic begins
    with 0 again. What a running backfill has written stays: the backfill may still have to read what the tombstone
    keeps out. (Rows of a topic that is gone are older than the rows of the topic in its place.)
    """

    topic: str
    topic_id: str
    partition: int
    offset: int  # end, exclusive
    last_generation: int  # the last generation of live batches
    backfills: tuple[int, ...]  # those that have ended, as generations, so negative

    def to(self, offset: int) -> PurgeMark:
        """The mark for the tombstones below an offset of this partition."""
        return PurgeMark(self.topic, self.topic_id, self.partition, offset)


@dataclass(frozen=True)
class TableShape:
    """How many files and records a table has, and how large they are."""

    files: int
    small_files: int  # below SMALL_BYTES
    bytes: int
    disk_bytes: int  # all data files in its folder, including those of old versions
    removable_files: int  # old data files that the newest version does not need; other recent versions may
    log_files: int
    records: int  # physical records
    deleted: int  # how many of them deletion vectors hide

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def wants_optimize(shape: TableShape, small_files_max: int) -> bool:
    """Whether rewriting the files is worth its cost."""
    return shape.small_files > small_files_max or shape.deleted > _DELETED_MAX * shape.records


def purgeable(rows: Sequence[tuple[datetime, Event]], before: datetime) -> list[Purgeable]:
    """The tombstones whose record was first committed before `before`; none while records are being read again.

    Args:
        rows: the ledger's events in order, each with the time when it was recorded.
    """
    state = fold(event for _, event in rows)
    offsets, furthest = state.committed_offsets, _furthest(event for _, event in rows)
    if any(offsets.get(tp, 0) < end for (tp, id_), end in furthest.items() if id_ == state.topic_ids.get(tp.topic)):
        return []  # a change may be read again after its delete was read again
    ended = tuple(-number for number, record in sorted(state.backfills.items()) if record.outcome is not None)
    return [
        Purgeable(
            topic=tp.topic,
            topic_id=id_,
            partition=tp.partition,
            offset=end,
            last_generation=state.generation,
            backfills=ended,
        )
        for (tp, id_), end in sorted(_furthest(event for at, event in rows if at < before).items())
        if id_ == state.topic_ids.get(tp.topic)
    ]


def _furthest(events: Iterable[Event]) -> dict[tuple[TopicPartition, str], int]:
    """How far the batches of all generations have committed, by partition and topic id."""
    planned: dict[tuple[int, int], BatchPlanned] = {}
    found: dict[tuple[TopicPartition, str], int] = {}
    for event in events:
        if isinstance(event, BatchPlanned):
            planned[event.batch.key] = event
        elif isinstance(event, BatchCommitted):
            batch = planned[event.generation, event.batch_id].batch
            for r in batch.ranges:
                key = (r.topic_partition, batch.topic_ids[r.topic])
                found[key] = max(found.get(key, 0), r.end_offset)
    return found


def verify_not_purged(
    pipeline: str, into: Into, replays: bool, marks: Sequence[PurgeMark], instead: Callable[[], str]
) -> None:
    """Raises TerminalError if a backfill or a replay could bring back rows whose deletes were purged.

    Args:
        marks: the target's. instead: makes the advice for the error.
    """
    if marks and into == "same":
        what = "replay" if replays else "backfill"
        raise _refused(f"{pipeline}, {what}", marks, f"a {what} into the table itself", instead())


def verify_reset_not_purged(
    pipeline: str,
    state: LedgerState,
    started: GenerationStarted,
    marks: Sequence[PurgeMark],
    back_to: int | None,
    instead: Callable[[], str],
) -> None:
    """Raises TerminalError if a new generation would read again what `state` has committed, though deletes were purged.

    Args:
        back_to: the version that a RESTORE since the last commit went back to; None: there was none. What landed after
            that version came after every purge that the table knows about, and is read as if for the first time.
    """
    if not marks or started.brings_rows:
        return
    first = state.committed_through + 1 if back_to is None else state.first_after(back_to) or 0
    stands_at = {tp: offset for tp, offset in state.offsets_before(first).items() if tp in started.start_offsets}
    same = {tp for tp in stands_at if state.topic_ids.get(tp.topic) == started.topic_ids.get(tp.topic)}
    again = [
        OffsetRange(*tp, started.start_offsets[tp], stands_at[tp])
        for tp in sorted(same)
        if started.start_offsets[tp] < stands_at[tp]
    ]
    if again:
        raise _refused(f"{pipeline}, from {started.origin}", marks, ", ".join(map(str, again)), instead())


def _refused(where: str, marks: Sequence[PurgeMark], found: str, instead: str) -> TerminalError:
    places = ", ".join(sorted({f"{mark.topic}-{mark.partition}@{mark.offset}" for mark in marks})[:10])
    return TerminalError(
        what="tombstones were purged, so rows that are deleted could come back",
        where=where,
        expected=f"that nothing is read again into the table, where deletes below {places} may be gone",
        found=found,
        action=instead,
    )


def raised(marks: Iterable[PurgeMark], more: Iterable[PurgeMark]) -> tuple[PurgeMark, ...]:
    """All marks together: the highest of every partition."""
    highest: dict[tuple[str, str, int], PurgeMark] = {}
    for mark in (*marks, *more):
        key = (mark.topic, mark.topic_id or "", mark.partition)
        if key not in highest or highest[key].offset < mark.offset:
            highest[key] = mark
    return tuple(highest[key] for key in sorted(highest))


def purged_offsets(marks: Iterable[PurgeMark], topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The offsets (exclusive) below which tombstones of the current topics may be gone."""
    found: dict[TopicPartition, int] = {}
    for mark in marks:
        if mark.topic_id in (None, topic_ids.get(mark.topic)):
            tp = TopicPartition(mark.topic, mark.partition)
            found[tp] = max(mark.offset, found.get(tp, 0))
    return found


def purged_to_text(marks: Iterable[PurgeMark]) -> str:
    """The marks as the text of the table property. It is ASCII and has no `$`, since it becomes part of a statement, in
    which Spark would replace `${...}`."""
    return json.dumps([asdict(mark) for mark in marks], separators=(",", ":")).replace("$", "\\u0024")


def purged_from(configuration: JsonMapping) -> tuple[PurgeMark, ...]:
    """The marks in a table's properties; empty if nothing was ever purged."""
    text = configuration.get(PURGED)
    return tuple(PurgeMark(**{"topic_id": None, **mark}) for mark in json.loads(text)) if text else ()
