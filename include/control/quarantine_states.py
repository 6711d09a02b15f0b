"""Computes the state of every quarantined record with DuckDB, from the tables, the ledger and the target's log.

The states are stored nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import duckdb
import pyarrow as pa

from include.control.duckdb_tables import register, table_of_rows, whole, with_columns
from include.lake.table_log import TableLog
from include.participants.settled_records import settled_records
from include.pipeline_file.tables import Tables
from include.protocol.backfill import Backfill
from include.protocol.batch import FENCE, Batch, BatchKey
from include.protocol.ledger_events import (
    PROMOTION,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
)
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange
from include.protocol.rows_gone import backfills_elsewhere, is_gone, versions_gone

RESOLUTIONS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("resolution", pa.string(), nullable=False),  # replayed, discarded
        pa.field("replay", pa.int64()),  # number of the backfill that applied it
        pa.field("reason", pa.string()),  # a person's
        pa.field("resolved_by", pa.string(), nullable=False),
        pa.field("resolved_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("topic_id", pa.string()),  # null: an older Lakemark wrote it, and it is about any topic of the name
        pa.field("table_version", pa.int64()),  # the target's, with the replayed record; null: not known
    ]
)
_LANDED = {"generation": pa.int64(), "batch_id": pa.int64(), "place": pa.int64()}
_READS = {
    "generation": pa.int64(),
    "batch_id": pa.int64(),
    "topic": pa.string(),
    "partition": pa.int64(),
    "start_offset": pa.int64(),
    "end_offset": pa.int64(),
}
_TOPICS = {"generation": pa.int64(), "batch_id": pa.int64(), "topic": pa.string(), "topic_id": pa.string()}
_EMPTY_QUARANTINE = (
    'CREATE TABLE aside (topic VARCHAR, partition INTEGER, "offset" BIGINT, timestamp TIMESTAMPTZ, key BLOB, '
    "value BLOB, reason VARCHAR, generation INTEGER, batch_id BIGINT, rules VARCHAR[])"
)


class _Landed(NamedTuple):
    """A landed batch or chunk, and what it judged."""

    key: BatchKey
    ranges: Sequence[OffsetRange]  # that it read whole
    topic_ids: Mapping[str, str]
    set_aside: int | None = None  # records; None: nobody knows


@dataclass(frozen=True)
class QuarantineStates:
    """The states of one pipeline's quarantined records at one moment."""

    pipeline: str
    tables: Tables
    events: Sequence[Event]
    state: LedgerState
    with_bytes: bool = True  # whether keys and values are read, too

    @cached_property
    def database(self) -> duckdb.DuckDBPyConnection:
        """A database with the table `records`: every quarantined record once, with its state.

        Its other tables, and what a row of each is:

        - aside: a record, and the batch that set it aside
        - told: a resolution, as the table of resolutions has it
        - replay-...: a record that this replay reads (registered under the replay's own name, when it is needed)
        - resolved: a resolution; or a record that was applied by a replay whose end is not recorded
        - landed: a batch or chunk that has landed, with its place in the order
        - reads: a range that such a batch read whole, if the quarantine still holds all that it set aside
        - topics: a topic of such a batch, with its id: a re-created topic has other records at the same positions
        """
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        leave_out = () if self.with_bytes else ("key", "value")
        log = TableLog.open(self.tables.quarantine)
        if not register(database, "aside", settled_records(log, self.pipeline, self.state) if log else (), leave_out):
            database.execute(_EMPTY_QUARANTINE)
        if not register(database, "told", whole(self.tables.resolutions)):
            database.register("told", RESOLUTIONS.empty_table())
        told = with_columns(database, "told", {"topic_id": "VARCHAR", "table_version": "BIGINT"})
        resolved = [
            f'SELECT topic, topic_id, partition, "offset", resolution, resolved_at FROM ({told}) '
            f"WHERE NOT ({self._is_rolled_back_sql})"
        ]
        for record in self.state.backfills.values():
            if record.backfill.records is not None and record.outcome is None:  # not in `told` yet
                resolved += [
                    f"SELECT *, 'replayed', now() FROM ({self._applied_by(database, record.backfill, batch)})"
                    for batch in self.landed_chunks(record.backfill)
                ]
        database.execute(f"CREATE TABLE resolved AS {' UNION ALL '.join(resolved)}")
        landed = [*self._landed_before(database), *self._landed()]
        database.register("landed", table_of_rows(_LANDED, [(*one.key, place) for place, one in enumerate(landed)]))
        # Where rows of a batch are gone from the quarantine (by a RESTORE, say), a record that is not there may be bad.
        counted = database.execute("SELECT generation, batch_id, count(*) FROM aside GROUP BY ALL").fetchall()
        held = {BatchKey(*key): count for *key, count in counted}
        proven = [one for one in landed if one.set_aside is None or held.get(one.key, 0) >= one.set_aside]
        reads = [(*one.key, *r.as_tuple()) for one in proven for r in one.ranges]
        database.register("reads", table_of_rows(_READS, reads))
        topics = [(*one.key, *t) for one in landed for t in {**self.state.topic_ids, **one.topic_ids}.items()]
        database.register("topics", table_of_rows(_TOPICS, topics))
        # Columns that not every quarantine has.
        optional = {"rules": "VARCHAR[]", "headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]'}
        database.execute(
            f"""CREATE TABLE records AS
            WITH judged AS (
                SELECT topic, topic_id, partition, "offset", timestamp, key, value, reason, rules, headers, generation,
                    batch_id, place
                FROM ({with_columns(database, "aside", optional)}) JOIN landed USING (generation, batch_id)
                LEFT JOIN topics USING (generation, batch_id, topic)
            ),
            found_good AS (
                SELECT DISTINCT j.topic, j.topic_id, j.partition, j."offset"
                FROM judged j JOIN (SELECT * FROM reads JOIN topics USING (generation, batch_id, topic)) r
                ON j.topic = r.topic AND j.topic_id = r.topic_id AND j.partition = r.partition
                AND j."offset" >= r.start_offset AND j."offset" < r.end_offset
                WHERE (r.generation, r.batch_id, j.topic, j.partition, j."offset") NOT IN
                    (SELECT (generation, batch_id, topic, partition, "offset") FROM judged)
            ),
            newest AS (
                SELECT * EXCLUDE (place) FROM judged
                QUALIFY row_number() OVER (PARTITION BY topic, topic_id, partition, "offset" ORDER BY place DESC) = 1
            ),
            last_word AS (
                SELECT n.topic, n.topic_id, n.partition, n."offset", arg_max(r.resolution, r.resolved_at) AS resolution
                FROM newest n JOIN resolved r ON n.topic = r.topic AND n.partition = r.partition
                    AND n."offset" = r."offset" AND coalesce(n.topic_id = r.topic_id, true)
                GROUP BY ALL
            )
            SELECT n.*, CASE
                WHEN l.resolution IS NOT NULL THEN l.resolution WHEN g.topic IS NOT NULL THEN 'applied' ELSE 'pending'
            END AS state
            FROM newest n LEFT JOIN last_word l ON n.topic = l.topic AND n.topic_id IS NOT DISTINCT FROM l.topic_id
                AND n.partition = l.partition AND n."offset" = l."offset"
            LEFT JOIN found_good g
            ON n.topic = g.topic AND n.topic_id = g.topic_id AND n.partition = g.partition AND n."offset" = g."offset"
            """
        )
        return database

    def applied_by(self, replay: Backfill, batch: Batch) -> str:
        """SQL for what a landed chunk of a replay has applied: all records that it did not set aside again."""
        return self._applied_by(self.database, replay, batch)

    def _applied_by(self, database: duckdb.DuckDBPyConnection, replay: Backfill, batch: Batch) -> str:
        records = self.tables.records_of(replay)
        assert records is not None, "a replay has records"
        name = replay.records or ""
        register(database, name, whole(records))
        frozen = with_columns(database, name, {"topic_id": "VARCHAR"})
        return (
            f'SELECT topic, topic_id, partition, "offset" FROM ({frozen}) '
            f"WHERE chunk = {batch.batch_id} "
            'AND (topic, partition, "offset") NOT IN (SELECT (topic, partition, "offset") FROM aside '
            f"WHERE generation = {batch.generation} AND batch_id = {batch.batch_id})"
        )

    def _landed_before(self, database: duckdb.DuckDBPyConnection) -> Iterator[_Landed]:
        """As `_landed`, for generations and backfills that a rebuilt ledger does not know, or that were another
        pipeline's until its rows took the place of all.

        The records that they set aside still count. The target's log says what its batches read, as far back as it
        goes. Nobody can know whether an older batch landed. If it did not, a later batch has read its records again,
        and the later judgement counts. A backfill may have been a replay of single records: it overrides no judgement.
        """
        known = {event.batch.generation for event in self._own_events if isinstance(event, BatchPlanned)}
        known |= {-event.backfill.number for event in self._own_events if isinstance(event, BackfillPlanned)}
        found = database.execute("SELECT DISTINCT generation, batch_id FROM aside ORDER BY ALL").fetchall()
        unknown = [BatchKey(*key) for key in found if key[0] not in known]
        if not unknown:
            return
        told: dict[BatchKey, _Landed] = {}
        for commit in self._target_log.landed_commits(self.pipeline) if self._target_log else ():
            batch = commit.metadata.batch
            if batch.generation not in known and not is_gone(commit.table_version, self._undone):
                ranges = () if batch.is_chunk else batch.ranges
                told[batch.key] = _Landed(batch.key, ranges, batch.topic_ids, commit.metadata.counts.quarantined)
        # Their topics are not known; the current ones are assumed.
        yield from (_Landed(key, (), {}) for key in unknown if key not in told)
        yield from reversed(told.values())

    def _landed(self) -> Iterator[_Landed]:
        """Every landed batch of all generations and backfills, in order, with the offsets that it read. What it wrote
        is still there: no restore has undone it."""
        planned: dict[tuple[int, int], Batch] = {}
        for event in self._own_events:
            match event:
                case BatchPlanned(batch):
                    planned[batch.key] = batch
                case BatchCommitted(table_version=int(version)) if is_gone(version, self._undone):
                    pass
                case BatchCommitted():
                    batch = planned[event.generation, event.batch_id]
                    set_aside = event.counts.quarantined if event.counts is not None else None
                    # What it found good was replaced if a backfill's table took the target's place since.
                    is_replaced = event.table_version is not None and is_gone(event.table_version, self._rolled_back)
                    yield _Landed(batch.key, () if is_replaced else batch.ranges, batch.topic_ids, set_aside)
                case BackfillPlanned(backfill) if backfill.into == "same" or self._is_swapped(backfill):
                    for batch in self.landed_chunks(backfill):  # a replay reads single records of its ranges
                        yield self._landed_chunk(batch, reads_whole=backfill.records is None)

    def _landed_chunk(self, batch: Batch, reads_whole: bool) -> _Landed:
        landed = self._target_log.landed(batch) if reads_whole and self._target_log else None
        set_aside = landed.metadata.counts.quarantined if landed is not None else None
        return _Landed(batch.key, batch.ranges if reads_whole else (), batch.topic_ids, set_aside)

    def landed_chunks(self, backfill: Backfill) -> list[Batch]:
        """The chunks of a backfill that have landed: by their markers in the target; or, if its own table took the
        target's place, all of them, unless that was undone."""
        chunks = map(backfill.batch, range(len(backfill.chunks)))
        if self._is_swapped(backfill):
            return [] if self._is_swapped_back(backfill) else list(chunks)
        return list(filter(self._has_landed, chunks))

    def _is_swapped_back(self, backfill: Backfill) -> bool:
        """Whether the tables went back to before a backfill's table took the target's place. Later ones that took it
        brought good records only."""
        origin, version = f"{PROMOTION}{backfill.number}", None
        later: list[Event] = []
        for event in self.events:
            if isinstance(event, GenerationStarted) and event.origin == origin:
                version, later = event.target_version, []
            elif not _promotes(event):
                later.append(event)
        return version is not None and is_gone(version, versions_gone(later))

    def _is_swapped(self, backfill: Backfill) -> bool:
        return self.state.backfills[backfill.number].outcome == "swapped"

    def _has_landed(self, batch: Batch) -> bool:
        log = self._target_log
        marker = log.marker_of(batch) if log else None
        if log is None or marker is None or marker == FENCE:
            return False
        version = self.version_of(batch)
        return version is None or not is_gone(version, self._rolled_back)

    def version_of(self, batch: Batch) -> int | None:
        """The target's version with a chunk that has landed; None if the log no longer has its commit."""
        landed = self._target_log.landed(batch) if self._target_log else None
        return landed.table_version if landed is not None else None

    @cached_property
    def _rolled_back(self) -> list[tuple[int, int]]:
        return versions_gone(self.events)

    @cached_property
    def _undone(self) -> list[tuple[int, int]]:
        """The same of batches. What they set aside waits on after a backfill's table took the target's place: that
        brings good records only."""
        return versions_gone(event for event in self.events if not _promotes(event))

    @cached_property
    def _own_events(self) -> Sequence[Event]:
        """Those since another pipeline's rows took the place of all: what was before says nothing about these rows,
        though its batches may have the same numbers."""
        cuts = [n for n, event in enumerate(self.events) if isinstance(event, GenerationStarted) and event.is_cut_over]
        return self.events[cuts[-1] + 1 :] if cuts else self.events

    @property
    def _is_rolled_back_sql(self) -> str:
        """SQL condition on a resolution: its record is no longer in the target."""
        spans = [f"(table_version > {after} AND table_version <= {until})" for after, until in self._rolled_back]
        if elsewhere := backfills_elsewhere(self.events):
            spans.append(f"replay IN ({', '.join(map(str, elsewhere))})")
        return f"coalesce({' OR '.join(spans) or 'false'}, false)"

    @cached_property
    def _target_log(self) -> TableLog | None:
        return TableLog.open(self.tables.target)


def _promotes(event: Event) -> bool:
    return isinstance(event, GenerationStarted) and event.is_promotion
