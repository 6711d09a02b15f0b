"""Lands a batch's part in a table: before the point, as its position decides; at the point, as its marker does.

Whatever goes wrong, this reads the table's own log and decides again. If two attempts run at once, the slower one gets
one of many kinds of conflict and finds what the other has done (I5). A lost answer may belong to a commit that landed
(I6).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from include.control.turns import turn
from include.fault_points import fault_point
from include.lake.ledger import Ledger
from include.lake.log_store import Create
from include.lake.merge.landing import Marker
from include.lake.merge.marking import commit_marker
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.bases import base_in
from include.participants.engines import Choice
from include.participants.fence import Fence
from include.participants.heads import verify_not_rolled_back
from include.participants.participant import Participant
from include.pipeline_file.tables import Tables
from include.protocol.batch import FENCE
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import RetryableError
from include.protocol.guard import fenced
from include.protocol.ledger_events import TablesLeftOut
from include.protocol.participants import (
    NOWHERE,
    Leave,
    Overtaken,
    Position,
    Positions,
    Replace,
    Stamp,
    Where,
    chunk_may_land,
    decide,
    verify_not_behind,
)
from include.settings import Settings
from spark_jobs.attempt.part import Part
from spark_jobs.attempt.ways import PartWrite, Way, WriteOvertakenError, tried
from spark_jobs.attempt.work import Work
from spark_jobs.engine.facts import SayFact
from spark_jobs.tables.contract import Write
from spark_jobs.tables.writers import writer_of

MakeWrite = Callable[[], Write]
_WAIT_SECONDS, _LOOK_SECONDS = 60.0, 0.5  # of a chunk, for a live batch that is about to land


@dataclass(frozen=True)
class Landing:
    """Lands the parts of one batch.

    Args:
        choices: by the tables' names: the engine for each. engines: gets, by name, what has written it.
        verify_not_landed: raises `LandedMeanwhileError` if the point holds the batch. verify_still_planned: does so,
            too, and raises if this very point must not get the batch; returns the point's log as it was then. create:
            makes the point's commit, together with sinks; None: the point's log does, alone.
    """

    spark: SparkSession
    settings: Settings
    work: Work
    attempt_id: str
    choices: Mapping[str, Choice]
    engines: dict[str, str]
    say: SayFact
    verify_not_landed: Callable[[], None]
    verify_still_planned: Callable[[], TableLog | None]
    create: Create | None = None

    def before(self, participant: Participant, part: Part, prunes: bool) -> Position:
        """Lands a part in a table before the point, unless it is there. Returns where the table stands then.

        Raises:
            LandedMeanwhileError: the whole batch has landed. TargetBehindLedger: the table lacks batches.
        """
        uri = participant.uri(self.settings)
        if not part.is_empty:
            writer_of(participant.spec).ensure(self.spark, uri, participant.spec)
        elif TableLog.open(uri) is None:
            self._verify_never_made(participant)
            return NOWHERE
        step, write = (
            self._chunk if self.work.batch.is_chunk else self._live,
            self._write(participant, part, uri, prunes),
        )

        def land(way: Way, unfit: str | None) -> Position:
            return step(participant, part, log=_opened(uri), make=lambda: self._made(participant, write, way, unfit))

        return tried(write.ways, land, lambda: self._as_mine(uri, part), self.say, turn=self._turn)

    def _write(self, participant: Participant, part: Part, uri: LakeUri, prunes: bool) -> PartWrite:
        choice = self.choices[participant.name]
        return PartWrite(self.spark, uri, participant.spec, part, batch=self.work.batch, choice=choice, prunes=prunes)

    def _made(self, participant: Participant, write: PartWrite, way: Way, unfit: str | None) -> Write:
        self.engines[participant.name] = write.in_words(way, unfit)
        return write.by(way)

    def _verify_never_made(self, participant: Participant) -> None:
        """Checks that a table which is not there was not there before: else its loss would be forgotten (I3)."""
        chain = self.work.stands_on.get(participant.name)
        if chain is not None and not self.work.batch.is_chunk:
            verify_not_behind(NOWHERE, chain, Where(str(self.work.batch), participant.name))

    def _as_mine(self, uri: LakeUri, part: Part) -> Position | None:
        """Where the table stands, if it holds the part; else None."""
        batch, log = self.work.batch, _opened(uri)
        marker = log.marker_of(batch)
        if marker is None or marker == FENCE or log.digest_of(batch) != part.digest:
            return None
        return (
            NOWHERE if batch.is_chunk else replace(log.position(batch.pipeline, batch.generation), digest=part.digest)
        )

    def _live(self, participant: Participant, part: Part, log: TableLog, make: MakeWrite) -> Position:
        batch, where = self.work.batch, Where(str(self.work.batch), participant.name)
        if log.marker_of(batch) == FENCE:
            self.verify_not_landed()
            raise fenced(str(where), batch.generation)
        found = log.position(batch.pipeline, batch.generation)
        if found.generation != batch.generation:
            self._fence(log.uri, is_point=False)
            log = _opened(log.uri)
            found = log.position(batch.pipeline, batch.generation)
        if found.batch == batch.key:
            found = replace(found, digest=log.digest_of(batch))
        chain = self.work.stands_on.get(participant.name)
        verify_not_rolled_back(log, chain, where)
        decision = decide(found, chain, batch.key, digest=part.digest, where=where)
        match decision:
            case Leave():
                return found
            case Overtaken():
                self.verify_not_landed()
                raise fenced(str(where), batch.generation)
            case Replace():
                self.verify_not_landed()
        metadata = self.metadata(participant, part, decision.stamp.revision)
        number = decision.stamp.number
        if isinstance(decision, Replace):
            base = base_in(log, decision.chain, batch.pipeline, batch=batch.key, where=where)
            metadata = replace(metadata, made_from=-1 if base.version is None else base.version)
            live = [*base.undone, batch]
            writer, spec = writer_of(participant.spec), participant.spec
            self.engines[participant.name] = "spark: what never reached the point is taken back"
            write = writer.replacing(self.spark, log.uri, part.rows.frame, spec, base=base.version, live=live)
        elif part.is_empty:
            table = self.choices[participant.name].table
            if not commit_marker(log, Marker(batch.app_id, number), metadata.dumps(), table):
                raise WriteOvertakenError
            return self._after(log, decision.stamp, part)
        else:
            write = make()
        write.commit(metadata, number, succeeds=log.succession)
        self._verify_mine(log)
        return self._after(log, decision.stamp, part)

    def _verify_mine(self, log: TableLog) -> None:
        """Checks that this attempt has made the commit after the version of this log. If another attempt had just set
        the marker, Delta skips the write without an error."""
        if log.attempt_at(log.version + 1) != self.attempt_id:
            raise WriteOvertakenError

    def _after(self, log: TableLog, stamp: Stamp, part: Part) -> Position:
        """Where the table stands after a commit that succeeded the version of this log."""
        return Position(
            self.work.batch.generation, *stamp, digest=part.digest, version=log.version + 1, identity=log.table_id
        )

    def _chunk(self, participant: Participant, part: Part, log: TableLog, make: MakeWrite) -> Position:
        """A chunk lands beside the live batches: into a table of changes only where none of them has begun (see
        `chunk_may_land`). A Replace in a table of records takes back the rows of live batches alone."""
        batch = self.work.batch
        marker = log.marker_of(batch)
        if marker == FENCE:
            raise fenced(str(batch), batch.generation)
        if marker is None or log.digest_of(batch) != part.digest:
            if participant.spec.kind != "append":
                log = self._quiet(participant, log)
            metadata = self.metadata(participant, part, 0)
            make().commit(metadata, batch.batch_id if marker is None else None, succeeds=log.succession)
            if marker is None:  # with a marker that is there, a write that changes nothing makes no commit
                self._verify_mine(log)
        return NOWHERE

    def _quiet(self, participant: Participant, log: TableLog) -> TableLog:
        """The table's log at a moment when no live batch is about to land there.

        Raises:
            RetryableError: one has begun, and has not ended.
        """
        name, deadline = self.work.batch.pipeline, time.monotonic() + _WAIT_SECONDS
        chain: Positions = self.work.stands_on
        generation = self.work.generation
        while not _is_quiet(log, name, generation, chain.get(participant.name)):
            if time.monotonic() > deadline:
                raise RetryableError(
                    what="a batch of the live pipeline has begun to land here, and has not ended",
                    where=f"{self.work.batch}, {participant.name}",
                    expected=f"the table as the last landed batch has left it, within {_WAIT_SECONDS:.0f} seconds",
                    found=log.newest_position(name, generation).in_words,
                    action=f"`lakemark run {name}` ends it; then rerun the chunk",
                )
            time.sleep(_LOOK_SECONDS)
            state = Ledger(Tables.of(self.settings, self.work.pipeline).ledger).recent()
            chain, generation = state.positions, state.generation
            log = _opened(log.uri)
        return log

    def _fence(self, table: LakeUri, is_point: bool) -> None:
        """Raises the fence of the ended generations in a table that this generation writes for the first time, if it is
        not there: the table may be new, or the pipeline file may have left it out when the fence was raised (I5)."""
        if self.work.begun is not None:
            Fence(self.settings, self.work.pipeline, self.work.begun).raise_in(table, is_point)

    def point(self, participant: Participant, part: Part, positions: Positions, prunes: bool) -> None:
        """Lands a part at the point, unless the batch is there. Whose commit it is, its log says."""
        batch, target = self.work.batch, self.work.target
        writer_of(participant.spec).ensure(self.spark, target, participant.spec)
        self.verify_still_planned()
        if batch.batch_id == 0:
            self._fence(self.work.target, is_point=True)
        self._say_what_a_chunk_leaves_out()
        metadata = replace(self.metadata(participant, part, 0), positions=None if batch.is_chunk else dict(positions))
        fault_point("attempt.before_merge")

        write = self._write(participant, part, target, prunes)

        def land(way: Way, unfit: str | None) -> bool:
            # What the lane lands over is what was looked at. Spark's long MERGEs go by Delta's conflicts.
            seen = self.verify_still_planned() if way == "lane" else None
            made = self._made(participant, write, way, unfit)
            succeeds = None if seen is None else seen.succession
            made.commit(metadata, batch.batch_id, succeeds=succeeds, create=self.create)
            return True

        tried(write.ways, land, self.verify_not_landed, self.say, turn=self._turn)

    def _turn(self) -> AbstractContextManager[None]:
        """Keeps live batches away from a chunk's tables. A live batch has none but slow work beside it."""
        if not self.work.batch.is_chunk:
            return nullcontext()
        return turn(Ledger(Tables.of(self.settings, self.work.pipeline).ledger), str(self.work.batch))

    def _say_what_a_chunk_leaves_out(self) -> None:
        """Records it before the chunk lands, so that nobody is told too late: no position speaks of chunks."""
        names, chunk = self.work.chunk_leaves_out, str(self.work.batch)
        if names:
            Ledger(Tables.of(self.settings, self.work.pipeline).ledger).append(
                lambda state: [TablesLeftOut(state.generation, chunk, names)], about=None
            )

    def metadata(self, participant: Participant, part: Part, revision: int) -> CommitMetadata:
        """What a commit says of itself."""
        return CommitMetadata(
            batch=self.work.batch,
            fingerprint=self.work.batch.fingerprint,
            role=participant.role,
            counts=part.counts,
            next_offsets=self.work.next_offsets,
            attempt_id=self.attempt_id,
            code_version=self.settings.code_version,
            quality=None if part.quality is None else part.quality.to_json(),
            set_aside=part.set_aside,
            history="scd2" if participant.spec.kind == "scd2" else None,
            truncated=(part.truncated and participant.place == "point") or None,
            digest=part.digest,
            revision=revision or None,
        )


def _is_quiet(log: TableLog, pipeline: str, generation: int, chain: Position | None) -> bool:
    """Whether a chunk may land now. Where the generation has just ended, the ledger says so soon."""
    is_fenced = log.marker(pipeline, generation) == FENCE
    return not is_fenced and chunk_may_land(log.position(pipeline, generation), chain, generation)


def _opened(uri: LakeUri) -> TableLog:
    log = TableLog.open(uri)
    assert log is not None, "it has been created"
    return log


class LandedMeanwhileError(Exception):
    """The point holds the batch: another attempt was faster, or the answer of this one was lost."""
