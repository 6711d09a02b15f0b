"""What the archive holds, in the terms of a source: for backfills that read it instead of Kafka. No JVM, no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from include.lake.delta_tables import OpenedTable, query
from include.lake.ledger import Ledger
from include.lake.sql import sql_text
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange, TopicPartition, joined
from include.protocol.read_before import ReadBefore
from include.settings import Settings

_OFFSETS_AT_ONCE = 10_000_000


@dataclass(frozen=True)
class ArchiveSource:
    """The archive of one pipeline, and what its writer's ledger says about the topics.

    Args:
        pipeline: the writer of the archive: the pipeline itself, or its landing.
        uri: where the archive lies; None: the pipeline file names none.
        state: the state of the writer's ledger. ledgers: of all who have read what it must hold.
    """

    pipeline: str
    uri: LakeUri | None
    state: LedgerState
    ledgers: tuple[Ledger, ...]

    @classmethod
    def of(cls, settings: Settings, pipeline: Pipeline, state: LedgerState) -> Self:
        """The archive of a pipeline.

        Args:
            state: the state of the pipeline's own ledger.
        """
        tables = Tables.of(settings, pipeline)
        own = Ledger(tables.ledger)
        if pipeline.landing is None:
            return cls(pipeline.name, tables.archive, state, (own,))
        ledger = Ledger(Tables.of(settings, pipeline.landing).ledger)
        return cls(pipeline.landing.name, tables.archive, ledger.state(), (own, ledger))

    def extent(self) -> SourceExtent:
        """What it holds of the current topics: from the first archived batch, or from behind its last hole, to the end
        of what committed batches have read, also before a reset went back.

        Raises:
            TerminalError: there is no archive, or it lacks records of committed batches. TableDamaged: see there.
        """
        log, state = self._log(), self.state
        first: dict[TopicPartition, int] = {}
        for commit in log.landed_commits(self.pipeline):
            for r in commit.metadata.batch.ranges:
                if commit.metadata.batch.topic_ids.get(r.topic) == state.topic_ids.get(r.topic):
                    first[r.topic_partition] = min(first.get(r.topic_partition, r.start_offset), r.start_offset)
        for tp, offset in first_offsets_in(log, state.topic_ids).items():
            first[tp] = min(first.get(tp, offset), offset)
        self.verify_whole()
        ends = dict(state.committed_offsets)
        for ledger in self.ledgers:
            read = ReadBefore.of(ledger.events(), state.topic_ids)
            ends |= {tp: max(ends.get(tp, end), end) for tp, end in read.ends.items()}
            if (whole := whole_part(log, read)) != read:
                first |= {tp: max(first.get(tp, offset), offset) for tp, offset in whole.starts.items()}
        extents = {tp: PartitionExtent(start, max(start, ends.get(tp, start))) for tp, start in sorted(first.items())}
        return SourceExtent(state.cluster_id or "", dict(state.topic_ids), extents)

    def offsets_at(self, extent: SourceExtent, moment: datetime) -> dict[TopicPartition, int]:
        """The first offset of every partition whose timestamp is `moment` or later; the end offset where there is
        none."""
        at = moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
        condition = f"and timestamp >= timestamp '{at}' group by topic, partition"
        found = {
            TopicPartition(row["topic"], row["partition"]): row["at"]
            for row in _rows(self._log(), self.state.topic_ids, condition)
        }
        return {tp: found.get(tp, held.end_offset) for tp, held in extent.partitions.items()}

    def verified_uri(self) -> LakeUri:
        """Where the archive lies. Raises TerminalError if there is none."""
        self._log()
        assert self.uri is not None, "there is a table"
        return self.uri

    def _log(self) -> TableLog:
        log = TableLog.open(self.uri) if self.uri else None
        if log is None:
            raise TerminalError(
                what="there is no archive to read from",
                where=self.pipeline,
                expected="`archive: lake://...` in the pipeline file, and batches that were run with it",
                found="no table" if self.uri else "no archive in the file",
                action="read from Kafka, as far as it still holds the records",
            )
        return log

    def verify_whole(self) -> None:
        """Verifies that no batch of this generation is missing after the first one in the archive (the pipeline file
        may have named no archive for a time). While the file had `merge_every`, the landing archived their records.

        Raises:
            TerminalError: some are, or there is no archive.
        """
        log, generation = self._log(), self.state.generation
        own = {c.metadata.batch.batch_id for c in log.landed_commits(self.pipeline, generation)}  # a landing has others
        read = [(r.batch, r.commit.counts.read) for r in self.state.batches if r.commit and r.commit.counts]
        held = [
            (batch.batch_id, batch.batch_id in own or records_in(log.table, batch.ranges, batch.topic_ids) >= n)
            for batch, n in read
            if n
        ]
        first = next((batch_id for batch_id, is_held in held if is_held), None)
        missing = [batch_id for batch_id, is_held in held if not is_held and first is not None and batch_id > first]
        if missing:
            raise TerminalError(
                what="the archive lacks batches",
                where=self.pipeline,
                expected=f"every batch since {first} that read anything",
                found="none of " + ", ".join(map(str, missing[:10])),
                action=f"`lakemark reset {self.pipeline} --from {missing[0]} --reason ...`, and the next batches read "
                "them from Kafka again, as far as it still holds them",
            )


def first_offsets_in(log: TableLog, topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The lowest offset of every partition that an archive holds."""
    found = _rows(log, topic_ids, "group by topic, partition")
    return {TopicPartition(row["topic"], row["partition"]): row["at"] for row in found}


def whole_part(log: TableLog | None, read: ReadBefore) -> ReadBefore:
    """The newest batches of which an archive holds all that they have read: all of them, or those after its last hole.
    None of them if there is no archive."""
    if holds(log, read):
        return read
    whole, broken = 0, len(read.batches)
    while broken - whole > 1:
        middle = (whole + broken) // 2
        whole, broken = (middle, broken) if holds(log, read.newest(middle)) else (whole, middle)
    return read.newest(whole)


def holds(log: TableLog | None, read: ReadBefore) -> bool:
    """Whether an archive holds all that batches have read."""
    return not read.records or (log is not None and records_in(log.table, read.ranges, read.topic_ids) >= read.records)


def _rows(log: TableLog, topic_ids: Mapping[str, str], rest: str) -> list[JsonObject]:
    named = (f"(topic = {sql_text(t)} and topic_id = {sql_text(id_)})" for t, id_ in sorted(topic_ids.items()))
    condition = " or ".join(named) or "false"
    return query(log.table, f'select topic, partition, min("offset") as at from t where ({condition}) {rest}')


def records_in(archive: OpenedTable, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]) -> int:
    """How many records of these ranges an archive holds; a record that was archived twice counts once."""
    return sum(_distinct(archive, some, topic_ids) for some in _at_once(joined(ranges)))


def _at_once(ranges: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """The ranges in parts that one query can count: it keeps every offset in memory."""
    some: list[OffsetRange] = []
    for r in ranges:
        for start in range(r.start_offset, r.end_offset, _OFFSETS_AT_ONCE):
            part = replace(r, start_offset=start, end_offset=min(r.end_offset, start + _OFFSETS_AT_ONCE))
            if some and sum(one.width for one in some) + part.width > _OFFSETS_AT_ONCE:
                yield some
                some = []
            some.append(part)
    if some:
        yield some


def _distinct(archive: OpenedTable, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]) -> int:
    within = " or ".join(
        f"(topic = {sql_text(r.topic)} and topic_id = {sql_text(topic_ids[r.topic])} and partition = {r.partition} "
        f'and "offset" >= {r.start_offset} and "offset" < {r.end_offset})'
        for r in ranges
    )
    [row] = query(
        archive, f'select count(*) as n from (select distinct topic, partition, "offset" from t where {within})'
    )
    return row["n"]
