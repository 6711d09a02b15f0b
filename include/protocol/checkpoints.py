"""Checkpoints: every batch ends at offsets of every partition, and at one version of every table. Pure.

Such a consistent cut is what a pipeline can be read at, and go back to. Nothing is written for it: it is what the
ledger's commits add up to. Model: Flink's checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from include.protocol.batch import BatchKey
from include.protocol.counts import BatchCounts
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import (
    FIRST_GENERATION,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    LedgerSnapshot,
    TopicsStarted,
)
from include.protocol.participants import Position, Positions, positions_from_json, positions_to_json
from include.protocol.ranges import TopicPartition, offsets_from_json, offsets_to_json

_START = -1  # comes before batch 0
_START_IN_NAMES = "start"
_BACKFILL = "backfill-"


@dataclass(frozen=True)
class Checkpoint:
    """The cut at the end of one batch, or at the start of a generation that began with other rows."""

    pipeline: str
    key: BatchKey  # batch -1: the start; of a backfill: the newest chunk that landed after the batch
    committed_at: str | None  # ISO 8601, UTC; None: the log no longer had the commit when it was settled
    next_offsets: Mapping[TopicPartition, int]  # where the batch after it starts
    topic_ids: Mapping[str, str]
    cluster_id: str | None
    point: Position  # of the target
    positions: Positions | None  # of all other tables; None: an older Lakemark did not record them
    counts: BatchCounts | None = None
    form: int = 1  # of the batch

    @property
    def name(self) -> str:
        """By which a person calls it."""
        batch = _START_IN_NAMES if self.key.batch_id == _START else self.key.batch_id
        return f"{f'{_BACKFILL}{-self.key.generation}' if self.key.generation < 0 else self.key.generation}/{batch}"

    @property
    def in_words(self) -> str:
        if self.key.batch_id == _START:
            return f"the start of generation {self.key.generation}"
        if self.key.generation < 0:
            return f"backfill {-self.key.generation} chunk {self.key.batch_id}"
        return f"generation {self.key.generation} batch {self.key.batch_id}"

    def all_positions(self, point: str) -> dict[str, Position]:
        """Where every table stood. Args: point: the target's name among the participants."""
        return {**(self.positions or {}), point: self.point}

    def to_json(self) -> JsonObject:
        return {
            "pipeline": self.pipeline,
            "generation": self.key.generation,
            "batch_id": self.key.batch_id,
            "committed_at": self.committed_at,
            "next_offsets": offsets_to_json(self.next_offsets),
            "topic_ids": dict(self.topic_ids),
            "cluster_id": self.cluster_id,
            "point": self.point.to_json(),
            "positions": positions_to_json(self.positions),
            "counts": self.counts and self.counts.to_json(),
            "form": self.form,
        }

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        return cls(
            pipeline=data["pipeline"],
            key=BatchKey(data["generation"], data["batch_id"]),
            committed_at=data["committed_at"],
            next_offsets=offsets_from_json(data["next_offsets"]),
            topic_ids=dict(data["topic_ids"]),
            cluster_id=data["cluster_id"],
            point=Position.from_json(data["point"]),
            positions=positions_from_json(data["positions"]),
            counts=data["counts"] and BatchCounts(**data["counts"]),
            form=data["form"],
        )


def checkpoints_of(pipeline: str, events: Iterable[Event]) -> list[Checkpoint]:
    """The checkpoints that a ledger knows, oldest first.

    Args:
        events: of the ledger, in order; all, or those from a `LedgerSnapshot` on. They have been folded without an
            error.
    """
    standing = _Standing()
    found = (standing.after(pipeline, event) for event in events)
    return [checkpoint for checkpoint in found if checkpoint is not None]


@dataclass
class _Standing:
    """Where a pipeline stands while its events are gone through."""

    generation: int = FIRST_GENERATION
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    form: int = 1

    def after(self, pipeline: str, event: Event) -> Checkpoint | None:
        """Goes on by one event. Returns the checkpoint that it ends, if any."""
        match event:
            case GenerationStarted():
                self.generation = event.generation
                self.next_offsets, self.topic_ids = dict(event.start_offsets), dict(event.topic_ids)
                self.cluster_id, self.form = event.cluster_id, event.form
                return self._begun(pipeline, event)
            case TopicsStarted():
                self.next_offsets |= event.start_offsets
                self.topic_ids |= event.topic_ids
                self.cluster_id = event.cluster_id
            case BatchPlanned(batch):
                self.next_offsets |= {r.topic_partition: r.end_offset for r in batch.ranges}
                self.topic_ids |= batch.topic_ids
                self.cluster_id, self.form = batch.cluster_id, batch.form
            case LedgerSnapshot() if not self.next_offsets:  # what is known begins here
                self.generation = event.batch.generation
                self.next_offsets, self.topic_ids = dict(event.next_offsets), dict(event.topic_ids)
                self.cluster_id, self.form = event.cluster_id, event.batch.form
                return self._at(pipeline, event.commit)
            case BatchCommitted() if event.generation == self.generation:  # else it comes late, after a reset
                return self._at(pipeline, event)
        return None

    def _begun(self, pipeline: str, begun: GenerationStarted) -> Checkpoint | None:
        """What a generation begins with, if these are rows that the pipeline has not had before. That of a clone has
        the name that it has in the other pipeline."""
        if begun.is_clone:
            return self.restored(pipeline, begun, None)
        if not begun.replaces_rows or None in (begun.target_version, begun.positions):
            return None
        return self._with(pipeline, begun, BatchKey(begun.generation, _START), begun.target_version)

    def restored(self, pipeline: str, begun: GenerationStarted, known: Checkpoint | None) -> Checkpoint | None:
        """What a restore went back to, as its generation says: a savepoint may hold what no event of a batch tells, of
        another pipeline, of a backfill's chunk, or what people have changed by hand. None: it has no name that this
        Lakemark knows. Args: known: the checkpoint of that name, if the pipeline has had it."""
        if known is not None:
            point = replace(known.point, version=begun.restored_to)
            return known if begun.positions is None else replace(known, point=point, positions=begun.positions)
        key = _key_of(begun.restored or "")
        return None if key is None else self._with(pipeline, begun, key, begun.restored_to)

    def _with(self, pipeline: str, begun: GenerationStarted, key: BatchKey, version: int | None) -> Checkpoint:
        return Checkpoint(
            pipeline,
            key,
            committed_at=None,
            next_offsets=dict(self.next_offsets),
            topic_ids=dict(self.topic_ids),
            cluster_id=self.cluster_id,
            point=Position(*key, revision=0, version=version, identity=begun.table_id),
            positions=begun.positions,
            form=self.form,
        )

    def _at(self, pipeline: str, commit: BatchCommitted) -> Checkpoint:
        key = BatchKey(commit.generation, commit.batch_id)
        return Checkpoint(
            pipeline,
            key,
            commit.committed_at,
            next_offsets=dict(self.next_offsets),
            topic_ids=dict(self.topic_ids),
            cluster_id=self.cluster_id,
            point=Position(*key, revision=0, version=commit.table_version, identity=commit.table_id),
            positions=commit.positions,
            counts=commit.counts,
            form=self.form,
        )


def named(pipeline: str, checkpoints: Sequence[Checkpoint], name: str) -> Checkpoint:
    """The checkpoint that a person names: BATCH of the newest generation, or GENERATION/BATCH; BATCH is `start` where
    other rows took the place of all.

    Raises:
        TerminalError: there is none of this name.
    """
    key = _key_of(name, checkpoints[-1].key.generation if checkpoints else FIRST_GENERATION)
    found = next((c for c in reversed(checkpoints) if c.key == key), None)
    if found is None:
        raise TerminalError(
            what="there is no such checkpoint",
            where=pipeline,
            expected="BATCH of the newest generation, or GENERATION/BATCH, of a batch that was committed"
            + (f": {_spans(checkpoints)}" if checkpoints else "; none was yet"),
            found=name[:100],
            action=f"see `lakemark checkpoint list {pipeline}`",
        )
    return found


def _key_of(name: str, newest: int = FIRST_GENERATION) -> BatchKey | None:
    """The inverse of a checkpoint's name; None: it is none. Args: newest: the generation, if it names none."""
    match = re.fullmatch(rf"(?:({_BACKFILL})?(\d{{1,9}})/)?(\d{{1,18}}|{_START_IN_NAMES})", name)
    if match is None:
        return None
    generation = int(match[2] or newest) * (-1 if match[1] else 1)
    return BatchKey(generation, _START if match[3] == _START_IN_NAMES else int(match[3]))


def verify_complete(checkpoint: Checkpoint) -> None:
    """Raises TerminalError: it does not say where the tables stood."""
    if checkpoint.positions is None or checkpoint.point.version is None:
        raise TerminalError(
            what="this checkpoint does not say where every table stood, so nobody can go back to it",
            where=f"{checkpoint.pipeline}, {checkpoint.in_words}",
            expected="a commit that names every table",
            found="a commit of an older Lakemark, or one that log clean-up had removed before it was settled",
            action=f"choose another one: `lakemark checkpoint list {checkpoint.pipeline}`",
        )


def standing_at(pipeline: str, told: Iterable[tuple[str, Event]], moment: str | None) -> Checkpoint | None:
    """The checkpoint that the tables stood at: the newest that was committed by then, unless they went back to another
    one since; None if there was none.

    Args:
        told: all events of the ledger, each with when it was recorded (ISO 8601, UTC). moment: in the same form; None:
            now.
    """
    standing, known, found = _Standing(), dict[str, Checkpoint](), None
    for recorded_at, event in told:
        if (checkpoint := standing.after(pipeline, event)) is not None:
            known[checkpoint.name] = checkpoint
            at = checkpoint.committed_at or recorded_at
        elif isinstance(event, GenerationStarted) and event.is_restore and not event.is_cut_over:
            checkpoint, at = standing.restored(pipeline, event, known.get(event.restored or "")), recorded_at
        if isinstance(event, GenerationStarted) and event.replaces_rows and (moment is None or recorded_at <= moment):
            found = None  # an older Lakemark recorded it: until a batch ends, nobody knows where the tables stand
        if checkpoint is not None and (moment is None or at <= moment):
            found = checkpoint
    return found


def _spans(checkpoints: Sequence[Checkpoint]) -> str:
    """The checkpoints by generation, in words."""
    names: dict[int, list[str]] = {}
    for checkpoint in sorted(checkpoints, key=lambda one: one.key):
        names.setdefault(checkpoint.key.generation, []).append(checkpoint.name)
    return ", ".join(f"{of_one[0]} to {of_one[-1]}" for of_one in names.values())


def retained(
    checkpoints: Sequence[Checkpoint], count: int | None, since: str | None, stood: Checkpoint | None = None
) -> Sequence[Checkpoint]:
    """The checkpoints that a pipeline keeps.

    Args:
        checkpoints: oldest first. count: so many of the newest. since: those that were committed from then on, and
            where the tables stood at that moment. None: no such rule; without any rule, none is kept. stood: see
            `standing_at`; None: at the newest one before.
    """
    if count is not None:
        return checkpoints[-count:]
    if since is None:
        return ()
    before = [n for n, c in enumerate(checkpoints) if c.committed_at is not None and c.committed_at <= since]
    later = checkpoints[before[-1] + 1 if before else 0 :]
    if stood is None and before:
        stood = checkpoints[before[-1]]
    return later if stood is None or stood in later else [stood, *later]
