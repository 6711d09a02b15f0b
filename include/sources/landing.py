"""What a pipeline with `merge_every` merges from: the archive, as far as its landing has committed batches to it.

Such a pipeline has two halves with the same protocol, one after the other. The landing takes batches from Kafka to the
archive. It has its own ledger, markers and generations, and its commits hold records and offsets together. The other
half plans ranges of what the landing has committed, as if that were Kafka, and merges them into the target. Each half
applies every record exactly once, and what the second one reads never changes. So both together apply every record
exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from include.lake.ledger import Ledger
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.point import verify_point
from include.participants.records import ARCHIVE
from include.pipeline_file import LANDING, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import Batch
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.handover import farthest, hole_in, starts_in
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Positions
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition, joined
from include.protocol.read_before import ReadBefore
from include.settings import Settings
from include.sources.archive import first_offsets_in, holds, whole_part

_OTHER_COMMITS = 20  # commits of the archive that are no batches, among the newest ones: mostly maintenance


@dataclass(frozen=True)
class LandingSource:
    """What a landing has committed, at the moment of reading."""

    landing: Pipeline
    merge_every: int
    merging: Ledger  # of the pipeline
    ledger: Ledger  # of its landing
    state: LedgerState
    uri: LakeUri  # where the archive lies
    log: TableLog | None  # the archive's log; None: there is none yet

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline) -> Self:
        """Reads what the landing of a pipeline with `merge_every` has committed.

        Raises:
            TargetBehindLedger: the archive lacks what the landing's ledger says is committed. TableDamaged: see there.
        """
        landing, merge_every = pipeline.landing, pipeline.merge_every
        assert landing is not None, "the file has merge_every"
        assert merge_every is not None
        tables, merging = Tables.of(settings, landing), Ledger(Tables.of(settings, pipeline).ledger)
        ledger = Ledger(tables.ledger)
        state = ledger.recent()
        log = TableLog.open(tables.target)  # read after the ledger, so it holds at least what the ledger says
        verify_point(landing.name, state, log)
        return cls(landing, merge_every, merging, ledger=ledger, state=state, uri=tables.target, log=log)

    def verified_uri(self, merged: LedgerState) -> LakeUri:
        """Where the archive lies; it holds the batch that `merged` has pending.

        Raises:
            TerminalError: there is no archive, though batches were planned from it. RetryableError: see
            `verify_holds_pending`.
        """
        if self.log is None:
            raise TerminalError(
                what="there is no archive to merge from",
                where=self.landing.name,
                expected=f"a table at {self.landing.target.table}, where batches have landed",
                found="none",
                action="bring it back, or read Kafka again: "
                f"`lakemark reset {self.landing.name} --from earliest --reason ...`",
            )
        self.verify_holds_pending(merged)
        return self.uri

    def extent(self, merged: LedgerState, from_first: bool = False) -> SourceExtent:
        """What can be merged, in the terms of a source. Records that were merged before count as present, as long as
        the topic is the same: the landing may have been reset to read them again, or may have begun after them.

        A re-created topic counts as the old one until everything that landed from the old topic is merged. Kafka no
        longer has these records, and a merge that began with the new topic would skip them.

        Args:
            merged: the state of the half that merges.
            from_first: also find where every partition begins, which takes both whole ledgers and the archive's rows.
                If False, this is done only for topics that `merged` does not know. All others begin at 0.
        """
        there, landed = merged.committed_offsets, self._landed_in(merged.topic_ids)
        waits = {tp.topic for tp, end in landed.items() if end > there.get(tp, 0)}
        topic_ids = dict(self.state.topic_ids) or dict(merged.topic_ids)
        topic_ids |= {topic: id_ for topic, id_ in merged.topic_ids.items() if topic in waits}
        there, ends = merged.committed_in(topic_ids), self._landed_in(topic_ids)
        ends = {tp: max(ends.get(tp, 0), there.get(tp, 0)) for tp in ends.keys() | there.keys()}
        begin = topic_ids if from_first else {t: id_ for t, id_ in topic_ids.items() if t not in merged.topic_ids}
        firsts = self._firsts(begin, ends, merged) if begin else {}
        extents = {tp: PartitionExtent(min(firsts.get(tp, 0), end), end) for tp, end in sorted(ends.items())}
        return SourceExtent(self.state.cluster_id or merged.cluster_id or "", topic_ids, extents)

    def _landed_in(self, topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """How far batches have landed in topics with these ids, also in topics that were re-created since."""
        known, landed = self.state.topic_ids, self.state.committed_in(topic_ids)
        others = {topic: id_ for topic, id_ in topic_ids.items() if topic in known and known[topic] != id_}
        return landed | (farthest(self.ledger.events(), others) if others else {})

    def _firsts(
        self, topic_ids: Mapping[str, str], ends: Mapping[TopicPartition, int], merged: LedgerState
    ) -> dict[TopicPartition, int]:
        """Where every partition of these topics begins in the archive; if it has a hole, behind the last one. What
        nobody has archived is not there, though it was merged."""
        events = [] if merged.is_fresh else self.merging.events()  # one that is rebuilt cannot be read
        read, knows = ReadBefore.of(events, topic_ids), self.state.topic_ids
        whole = whole_part(self.log, read)
        rows = first_offsets_in(self.log, topic_ids) if self.log is not None else {}
        found = (starts_in(self.ledger.events(), topic_ids), rows, whole.starts)
        firsts = {}
        for tp, end in ((tp, end) for tp, end in ends.items() if tp.topic in topic_ids):
            never = 0 if knows.get(tp.topic) == topic_ids[tp.topic] else end  # a partition that was added is read whole
            firsts[tp] = min((starts[tp] for starts in found if tp in starts), default=never)
        return firsts if whole == read else {**firsts, **whole.starts}

    def verify_holds(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> None:
        """Checks that the archive holds what was merged from these offsets on: it is to be merged again.

        Raises:
            TerminalError: it holds fewer records than those batches have read.
        """
        read = ReadBefore.of(self.merging.events(), topic_ids).since(offsets)
        if not holds(self.log, read):
            name, landing = self.landing.name.removesuffix(LANDING), self.landing.name
            raise TerminalError(
                what="the archive lacks records that were merged before, and that are to be merged again",
                where=f"{name}, {self.landing.target.table}",
                expected=f"{read.records:,} records in " + ", ".join(map(str, joined(read.ranges))),
                found="fewer" if self.log is not None else "no table",
                action=f"`lakemark reset {landing} --from earliest --reason ...`, and `lakemark run {landing} "
                "--until-caught-up` archives again what Kafka still holds; or, to begin behind what the archive lacks, "
                f"`lakemark reset {name} --from earliest --reason ...`",
            )

    def filled(self, stands_on: Positions, merged: LedgerState) -> Positions:
        """Where tables stand: an archive that the pipeline file has left out is whole once its landing has filled it.

        Args:
            stands_on: as the merging half's ledger says.
        """
        archive = stands_on.get(ARCHIVE)
        if archive is None or not archive.left_out:
            return stands_on
        events = self.merging.events()
        hole = ReadBefore.of(events, merged.topic_ids).since(hole_in(ARCHIVE, events, merged.topic_ids))
        return {**stands_on, ARCHIVE: replace(archive, left_out=not holds(self.log, hole))}

    def verify_holds_pending(self, merged: LedgerState) -> None:
        """Raises RetryableError if a batch was planned from Kafka, before the file had `merge_every`, and is not
        archived yet."""
        if merged.pending is None:
            return
        batch, held = merged.pending.batch, self._landed_in(merged.topic_ids)
        if any(held.get(r.topic_partition, 0) < r.end_offset for r in batch.ranges):
            raise RetryableError(
                what="the archive does not hold all of the planned batch yet",
                where=str(batch),
                expected=", ".join(map(str, batch.ranges)),
                found="the landing at " + ", ".join(f"{tp} {offset}" for tp, offset in sorted(held.items())),
                action=f"run the landing: `lakemark run {self.landing.name}`",
            )

    def unmerged(self, pipeline: str, merged: LedgerState) -> Batch | None:
        """All that waits, as one batch that nobody has planned; None if nothing waits."""
        source, offsets = self.extent(merged), merged.committed_offsets
        starts = {tp: max(offsets.get(tp, 0), extent.log_start_offset) for tp, extent in source.partitions.items()}
        ends = {tp: extent.end_offset for tp, extent in source.partitions.items()}
        ranges = tuple(OffsetRange(*tp, starts[tp], end) for tp, end in sorted(ends.items()) if starts[tp] < end)
        if not ranges:
            return None
        return Batch(
            pipeline=pipeline,
            generation=merged.generation,
            batch_id=merged.next_batch_id,
            ranges=ranges,
            topic_ids=dict(source.topic_ids),
            cluster_id=source.cluster_id,
        )

    def is_due(self, merged: LedgerState) -> bool:
        """Whether at least `merge_every` batches of the landing hold something that is not merged."""
        offsets, waiting = merged.committed_offsets, 0
        limit = self.merge_every + _OTHER_COMMITS
        for commit in self.log.landed_commits(self.landing.name, limit=limit) if self.log else ():
            if all(r.end_offset <= offsets.get(r.topic_partition, 0) for r in commit.metadata.batch.ranges):
                break
            waiting += 1
        return waiting >= self.merge_every
