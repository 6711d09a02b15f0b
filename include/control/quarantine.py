"""The quarantine as a workflow: what waits in it, what became of the rest, and the copy that a replay reads.

The quarantine itself is only ever added to. A record of it is *pending* if every batch that read it set it aside, and
nobody has resolved it; `resolutions` holds what was replayed or discarded, and by whom. Computed with DuckDB from the
tables, the ledger and the target's log: nothing else remembers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self

import duckdb
import pyarrow as pa

from include.control.settling import Settler
from include.lake.delta_tables import append, open_table, query_arrow, replace_rows
from include.lake.sql import sql_text
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.pipeline_file.tables import Tables
from include.protocol.backfill import Backfill, Chunks
from include.protocol.batch import FENCE, Batch, BatchKey
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BackfillPlanned, BatchCommitted, BatchPlanned, Event
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange

_RESOLUTIONS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("resolution", pa.string(), nullable=False),  # replayed, discarded
        pa.field("replay", pa.int64()),  # number of the backfill that applied it
        pa.field("reason", pa.string()),  # a person's
        pa.field("resolved_by", pa.string(), nullable=False),
        pa.field("resolved_at", pa.timestamp("us", tz="UTC"), nullable=False),
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


_Landed = tuple[BatchKey, Sequence[OffsetRange], Mapping[str, str]]  # what it read whole, ids of its topics


@dataclass(frozen=True)
class Chosen:
    """Which pending records are meant; all of them, unless it says so."""

    ranges: Sequence[OffsetRange] = ()
    rule: str | None = None  # broke this rule

    def condition(self) -> str:
        """As SQL over `pending`."""
        parts = []
        if self.ranges:
            parts.append(
                " OR ".join(
                    f"(topic = {sql_text(r.topic)} AND partition = {r.partition} "
                    f'AND "offset" >= {r.start_offset} AND "offset" < {r.end_offset})'
                    for r in self.ranges
                )
            )
        if self.rule is not None:
            parts.append(f"list_contains(rules, {sql_text(self.rule)})")
        return " AND ".join(f"({part})" for part in parts) or "true"


@dataclass(frozen=True)
class Quarantine:
    """Of one pipeline, as it is at one moment."""

    pipeline: str
    tables: Tables
    events: Sequence[Event]
    state: LedgerState
    with_bytes: bool = True  # whether keys and values are read, too

    @classmethod
    def of(cls, settler: Settler, with_bytes: bool = True) -> Self:
        events = settler.ledger.events()
        return cls(settler.pipeline.name, settler.tables, events, fold(events), with_bytes)

    def summary(self) -> list[dict[str, Any]]:
        """By reason, most first: reason, pending, replayed, discarded, applied (a backfill or a reset read it again and
        found it good)."""
        return self._rows(
            "SELECT reason, count(*) FILTER (state = 'pending') AS pending, "
            "count(*) FILTER (state = 'replayed') AS replayed, count(*) FILTER (state = 'discarded') AS discarded, "
            "count(*) FILTER (state = 'applied') AS applied FROM records GROUP BY reason "
            "ORDER BY pending DESC, reason"
        )

    def pending(self, chosen: Chosen, limit: int) -> list[dict[str, Any]]:
        """Pending records, the oldest first: topic, partition, offset, timestamp, key, value, reason, rules; generation
        and batch_id of the batch that set it aside last."""
        return self._rows(
            "SELECT * EXCLUDE (state, headers, topic_id) FROM records "
            f"WHERE state = 'pending' AND {chosen.condition()} "
            f'ORDER BY timestamp, topic, partition, "offset" LIMIT {limit}'
        )

    def count_pending(self, chosen: Chosen) -> int:
        [row] = self._rows(f"SELECT count(*) AS n FROM records WHERE state = 'pending' AND {chosen.condition()}")
        return row["n"]

    def set_aside(self) -> pa.Table:
        """Records that no batch has applied: topic, topic_id, partition, offset, value."""
        query = (
            "SELECT topic, topic_id, partition, \"offset\", value FROM records WHERE state IN ('pending', 'discarded')"
        )
        return self._database.sql(query).to_arrow_table()

    def freeze(self, chosen: Chosen, uri: LakeUri, records_per_chunk: int) -> tuple[Chunks, int]:
        """Copies the pending records that are meant into a table of a replay's own.

        Columns: chunk int, and of the quarantine topic, partition, offset, timestamp, key, value, headers. A topic that
        was created anew may have two records at one position: they are in different chunks, the newest first, for
        within one a position is one record.

        Returns:
            The ranges that each chunk's records span, and how many records there are in all.

        Raises:
            TerminalError: there are none.
        """
        self._database.execute(
            "CREATE OR REPLACE TABLE frozen AS WITH chosen AS (SELECT *, row_number() OVER (PARTITION BY topic, "
            'partition, "offset" ORDER BY timestamp DESC, topic_id) AS nth FROM records '
            f"WHERE state = 'pending' AND {chosen.condition()}), "
            "numbered AS (SELECT *, (row_number() OVER (PARTITION BY nth ORDER BY timestamp, topic, partition, "
            f'"offset") - 1) // {records_per_chunk} AS part FROM chosen) '
            "SELECT CAST(dense_rank() OVER (ORDER BY nth, part) - 1 AS INTEGER) AS chunk, topic, partition, "
            '"offset", timestamp, key, value, headers FROM numbered'
        )
        spans = self._rows(
            'SELECT chunk, topic, partition, min("offset") AS first, max("offset") AS last, count(*) AS records '
            "FROM frozen GROUP BY ALL ORDER BY chunk, topic, partition"
        )
        if not spans:
            raise TerminalError(
                what="nothing in the quarantine is to be replayed",
                where=self.pipeline,
                expected="pending records that fit",
                found="none",
                action=f"see `lakemark quarantine list {self.pipeline}`; nothing was changed",
            )
        replace_rows(uri, self._database.sql("SELECT * FROM frozen").to_arrow_table())
        chunks: list[list[OffsetRange]] = [[] for _ in range(spans[-1]["chunk"] + 1)]
        for span in spans:
            chunks[span["chunk"]].append(OffsetRange(span["topic"], span["partition"], span["first"], span["last"] + 1))
        return tuple(map(tuple, chunks)), sum(span["records"] for span in spans)

    def discard(self, chosen: Chosen, reason: str, discarded_by: str) -> int:
        """Puts on record that nobody wants the pending records that are meant; returns how many. The records stay."""
        query = f"SELECT topic, partition, \"offset\" FROM records WHERE state = 'pending' AND {chosen.condition()}"
        found = self._rows(query)
        self._resolve(found, "discarded", None, reason, discarded_by, None)
        return len(found)

    def settle_replay(self, replay: Backfill, resolved_by: str) -> int:
        """Records what a replay has applied: of its landed chunks all that it did not set aside again. Once, however
        often it is called; returns how many."""
        applied = 0
        for batch in self._landed_chunks(replay):
            query = f'SELECT topic, partition, "offset" FROM ({self._applied_by(self._database, replay, batch)})'
            found = self._rows(query)
            self._resolve(found, "replayed", replay.number, replay.reason, resolved_by, batch)
            applied += len(found)
        return applied

    def _applied_by(self, database: duckdb.DuckDBPyConnection, replay: Backfill, batch: Batch) -> str:
        """Query for what a landed chunk of a replay has applied: all that it did not set aside again."""
        records = self.tables.records_of(replay)
        assert records is not None, "a replay has records"
        _register(database, replay.records or "", records)
        return (
            f'SELECT topic, partition, "offset" FROM "{replay.records}" WHERE chunk = {batch.batch_id} '
            'AND (topic, partition, "offset") NOT IN (SELECT (topic, partition, "offset") FROM aside '
            f"WHERE generation = {batch.generation} AND batch_id = {batch.batch_id})"
        )

    def _resolve(
        self,
        records: Iterable[dict[str, Any]],
        resolution: str,
        replay: int | None,
        reason: str,
        resolved_by: str,
        batch: Batch | None,
    ) -> None:
        """Args: batch: a replay's chunk, whose marker the commit carries, so that it lands once."""
        about = {"resolution": resolution, "replay": replay, "reason": reason, "resolved_by": resolved_by}
        rows = [{**record, **about, "resolved_at": datetime.now(UTC)} for record in records]
        if not rows:
            return
        append(
            self.tables.resolutions,
            pa.Table.from_pylist(rows, _RESOLUTIONS),
            "what became of quarantined records",
            batch and (batch.app_id, batch.batch_id),
        )

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """Tables: aside, resolved, landed (batches, in order), reads (which of them read what offsets whole), topics
        (theirs), and `records`: every record once, with its state. A topic that was created anew has other records
        under the names of the old ones."""
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        leave_out = () if self.with_bytes else ("key", "value")
        if not _register(database, "aside", self.tables.quarantine, leave_out):
            database.execute(_EMPTY_QUARANTINE)
        if not _register(database, "told", self.tables.resolutions):
            database.register("told", _RESOLUTIONS.empty_table())
        resolved = ['SELECT topic, partition, "offset", resolution, resolved_at FROM told']
        for record in self.state.backfills.values():
            if record.backfill.records is not None and record.outcome is None:  # not told of yet
                resolved += [
                    f"SELECT *, 'replayed', now() FROM ({self._applied_by(database, record.backfill, batch)})"
                    for batch in self._landed_chunks(record.backfill)
                ]
        database.execute(f"CREATE TABLE resolved AS {' UNION ALL '.join(resolved)}")
        landed = [*self._landed_before(database), *self._landed()]
        database.register("landed", _table(_LANDED, [(*key, place) for place, (key, *_) in enumerate(landed)]))
        reads = [(*key, *r) for key, ranges, _ in landed for r in map(_parts, ranges)]
        database.register("reads", _table(_READS, reads))
        topics = [(*key, *topic) for key, _, ids in landed for topic in {**self.state.topic_ids, **ids}.items()]
        database.register("topics", _table(_TOPICS, topics))
        columns = {name for name, *_ in database.execute("DESCRIBE aside").fetchall()}
        optional = {"rules": "VARCHAR[]", "headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]'}  # not of every batch
        more = ", ".join(n if n in columns else f"CAST(NULL AS {type_}) AS {n}" for n, type_ in optional.items())
        database.execute(
            f"""CREATE TABLE records AS
            WITH judged AS (
                SELECT topic, topic_id, partition, "offset", timestamp, key, value, reason, {more}, generation,
                    batch_id, place
                FROM aside JOIN landed USING (generation, batch_id)
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
                SELECT topic, partition, "offset", arg_max(resolution, resolved_at) AS resolution
                FROM resolved GROUP BY ALL
            )
            SELECT n.*, CASE
                WHEN l.resolution IS NOT NULL THEN l.resolution WHEN g.topic IS NOT NULL THEN 'applied' ELSE 'pending'
            END AS state
            FROM newest n LEFT JOIN last_word l USING (topic, partition, "offset")
            LEFT JOIN found_good g
            ON n.topic = g.topic AND n.topic_id = g.topic_id AND n.partition = g.partition AND n."offset" = g."offset"
            """
        )
        return database

    def _landed_before(self, database: duckdb.DuckDBPyConnection) -> Iterator[_Landed]:
        """The same of generations and backfills that a ledger which was made anew does not know.

        What they set aside counts still. The target's log says what its batches read, as far back as it goes. Whether
        an older one landed nobody can say: if not, a later batch has read its records again, and that one's word
        counts. Of a backfill nobody knows whether it read single records: it takes back nobody's word.
        """
        known = {event.batch.generation for event in self.events if isinstance(event, BatchPlanned)}
        known |= {-number for number in self.state.backfills}
        found = database.execute("SELECT DISTINCT generation, batch_id FROM aside ORDER BY ALL").fetchall()
        unknown = [BatchKey(*key) for key in found if key[0] not in known]
        if not unknown:
            return
        told: dict[BatchKey, _Landed] = {}
        for commit in self._target_log.landed_commits(self.pipeline) if self._target_log else ():
            batch = commit.metadata.batch
            if batch.generation not in known:
                told[batch.key] = (batch.key, () if batch.is_chunk else batch.ranges, batch.topic_ids)
        yield from ((key, (), {}) for key in unknown if key not in told)  # of the present topics, as far as one can say
        yield from reversed(told.values())

    def _landed(self) -> Iterator[_Landed]:
        """Every batch that has landed, of all generations and backfills, in order, and the offsets that it read."""
        planned: dict[tuple[int, int], Batch] = {}
        for event in self.events:
            match event:
                case BatchPlanned(batch):
                    planned[batch.key] = batch
                case BatchCommitted():
                    batch = planned[event.generation, event.batch_id]
                    yield batch.key, batch.ranges, batch.topic_ids
                case BackfillPlanned(backfill) if backfill.into == "same" or self._is_swapped(backfill):
                    for batch in self._landed_chunks(backfill):  # a replay's read but single records of its ranges
                        yield batch.key, batch.ranges if backfill.records is None else (), batch.topic_ids

    def _landed_chunks(self, backfill: Backfill) -> list[Batch]:
        return list(filter(self._has_landed, map(backfill.batch, range(len(backfill.chunks)))))

    def _is_swapped(self, backfill: Backfill) -> bool:
        return self.state.backfills[backfill.number].outcome == "swapped"

    def _has_landed(self, batch: Batch) -> bool:
        log = self._target_log
        marker = log and log.marker_of(batch)
        return marker is not None and marker != FENCE

    @cached_property
    def _target_log(self) -> TableLog | None:
        return TableLog.open(self.tables.target)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        return self._database.sql(sql).to_arrow_table().to_pylist()


def record_line(record: dict[str, Any]) -> str:
    """A quarantined record, for people."""
    value = record["value"]
    text = "null" if value is None else value.decode(errors="replace")
    return f"{record['topic']}-{record['partition']}@{record['offset']}  {record['reason']}  {_cut(text, 200)}"


def record_json(record: dict[str, Any]) -> dict[str, Any]:
    """The same as data; bytes as text."""
    texts = {name: None if record[name] is None else record[name].decode(errors="replace") for name in ("key", "value")}
    return {**record, **texts, "timestamp": record["timestamp"].isoformat()}


def _register(database: duckdb.DuckDBPyConnection, name: str, uri: LakeUri, leave_out: Sequence[str] = ()) -> bool:
    """The table under a name, if there is one; columns that are left out are null."""
    table = open_table(uri)
    if table is None:
        return False
    names = [field.name for field in table.schema().fields]
    columns = ", ".join(f'cast(null as bytea) as "{n}"' if n in leave_out else f'"{n}"' for n in names)
    database.register(name, query_arrow(table, f"select {columns} from t"))
    return True


def _table(columns: dict[str, pa.DataType], rows: Sequence[tuple]) -> pa.Table:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(list(v), type=type_) for v, type_ in zip(values, columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _parts(r: OffsetRange) -> tuple[str, int, int, int]:
    return r.topic, r.partition, r.start_offset, r.end_offset


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
