"""The quarantine as a workflow: which records wait, what happened to the others, and the copy that a replay reads.

Records are only ever added to the quarantine's table. A record is *pending* if every batch that read it set it aside
and nobody has resolved it. The table `resolutions` says what was replayed or discarded, and by whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Self

import duckdb
import pyarrow as pa

from include.control.quarantine_states import RESOLUTIONS, QuarantineStates
from include.control.settling import Settler
from include.lake.appended import append
from include.lake.delta_tables import Row, open_table, query, replace_rows
from include.lake.merge.landing import Marker
from include.lake.sql import sql_text
from include.lake.uri import LakeUri
from include.pipeline_file.tables import Tables
from include.protocol.backfill import Backfill, Chunks
from include.protocol.batch import Batch
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import Event
from include.protocol.ledger_fold import fold
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import OffsetRange


@dataclass(frozen=True)
class Chosen:
    """A choice of pending records: all of them, or those of some offsets, or those that broke a rule."""

    ranges: Sequence[OffsetRange] = ()
    rule: str | None = None

    def condition(self) -> str:
        """The choice as SQL over `records`."""
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
    """The quarantine of one pipeline at one moment."""

    pipeline: str
    tables: Tables
    events: Sequence[Event]
    state: LedgerState
    with_bytes: bool = True  # whether keys and values are read, too

    @classmethod
    def of(cls, settler: Settler, with_bytes: bool = True) -> Self:
        events = settler.ledger.events()
        return cls(settler.pipeline.name, settler.tables, events, fold(events), with_bytes=with_bytes)

    def summary(self) -> list[Row]:
        """Counts by reason, most pending first: reason, pending, replayed, discarded, applied (a backfill or a reset
        read the record again and accepted it)."""
        return self._rows(
            "SELECT reason, count(*) FILTER (state = 'pending') AS pending, "
            "count(*) FILTER (state = 'replayed') AS replayed, count(*) FILTER (state = 'discarded') AS discarded, "
            "count(*) FILTER (state = 'applied') AS applied FROM records GROUP BY reason "
            "ORDER BY pending DESC, reason"
        )

    def pending(self, chosen: Chosen, limit: int) -> list[Row]:
        """Pending records, the oldest first: topic, partition, offset, timestamp, key, value, reason, rules; generation
        and batch_id of the batch that set it aside last."""
        return self._rows(
            "SELECT * EXCLUDE (state, headers, topic_id) FROM records "
            f"WHERE state = 'pending' AND {self._condition(chosen)} "
            f'ORDER BY timestamp, topic, partition, "offset" LIMIT {limit}'
        )

    def count_pending(self, chosen: Chosen) -> int:
        [row] = self._rows(f"SELECT count(*) AS n FROM records WHERE state = 'pending' AND {self._condition(chosen)}")
        return row["n"]

    def set_aside(self) -> pa.Table:
        """Records that no batch has applied: topic, topic_id, partition, offset, value."""
        query = (
            "SELECT topic, topic_id, partition, \"offset\", value FROM records WHERE state IN ('pending', 'discarded')"
        )
        return self._database.sql(query).to_arrow_table()

    def freeze(self, chosen: Chosen, uri: LakeUri, records_per_chunk: int) -> tuple[Chunks, int]:
        """Copies the chosen pending records into a table for one replay.

        Columns: chunk int, topic_id, and from the quarantine topic, partition, offset, timestamp, key, value, headers.
        A topic that was re-created may have two records at one position. They go into different chunks, the newest
        first, because within a chunk a position is one record.

        Returns:
            The ranges that each chunk's records span, and how many records there are in all.

        Raises:
            TerminalError: there are none.
        """
        self._database.execute(
            "CREATE OR REPLACE TABLE frozen AS WITH chosen AS (SELECT *, row_number() OVER (PARTITION BY topic, "
            'partition, "offset" ORDER BY timestamp DESC, topic_id) AS nth FROM records '
            f"WHERE state = 'pending' AND {self._condition(chosen)}), "
            "numbered AS (SELECT *, (row_number() OVER (PARTITION BY nth ORDER BY timestamp, topic, partition, "
            f'"offset") - 1) // {records_per_chunk} AS part FROM chosen) '
            "SELECT CAST(dense_rank() OVER (ORDER BY nth, part) - 1 AS INTEGER) AS chunk, topic, topic_id, "
            'partition, "offset", timestamp, key, value, headers FROM numbered'
        )
        spans = self._rows(
            'SELECT chunk, topic, partition, min("offset") AS first, max("offset") AS last, count(*) AS records '
            "FROM frozen GROUP BY ALL ORDER BY chunk, topic, partition"
        )
        if not spans:
            raise TerminalError(
                what="nothing in the quarantine can be replayed",
                where=self.pipeline,
                expected="pending records that match",
                found="none",
                action=f"see `lakemark quarantine list {self.pipeline}`; nothing was changed",
            )
        replace_rows(uri, self._database.sql("SELECT * FROM frozen").to_arrow_table())
        chunks: list[list[OffsetRange]] = [[] for _ in range(spans[-1]["chunk"] + 1)]
        for span in spans:
            chunks[span["chunk"]].append(OffsetRange(span["topic"], span["partition"], span["first"], span["last"] + 1))
        return tuple(map(tuple, chunks)), sum(span["records"] for span in spans)

    def discard(self, chosen: Chosen, reason: str, discarded_by: str) -> int:
        """Marks the chosen pending records as discarded, and returns how many there are. They stay in the table."""
        query = "SELECT topic, topic_id, partition, \"offset\" FROM records WHERE state = 'pending'"
        found = self._rows(f"{query} AND {self._condition(chosen)}")
        self._resolve(found, "discarded", reason, discarded_by)
        return len(found)

    def discarded_by(self, person: str) -> int:
        """How many records a person, or a run, has discarded so far."""
        table = open_table(self.tables.resolutions)
        if table is None:
            return 0
        who = sql_text(person)
        [row] = query(table, f"select count(*) as n from t where resolution = 'discarded' and resolved_by = {who}")
        return int(row["n"])

    def settle_replay(self, replay: Backfill, resolved_by: str) -> int:
        """Marks as replayed every record of the replay's landed chunks that was not set aside again. Each is marked
        once, however often this is called. Returns how many there are."""
        applied = 0
        for batch in self._states.landed_chunks(replay):
            version = self._states.version_of(batch)
            found = [{**row, "table_version": version} for row in self._rows(self._states.applied_by(replay, batch))]
            self._resolve(found, "replayed", replay.reason, resolved_by, replay=replay.number, batch=batch)
            applied += len(found)
        return applied

    def _resolve(
        self,
        records: Iterable[Row],
        resolution: str,
        reason: str,
        resolved_by: str,
        replay: int | None = None,
        batch: Batch | None = None,
    ) -> None:
        """Writes the resolution of these records.

        Args:
            batch: a replay's chunk, whose marker the commit carries, so that it lands once.
        """
        about = {"resolution": resolution, "replay": replay, "reason": reason, "resolved_by": resolved_by}
        now = datetime.now(UTC)  # one moment for all of them: together they are one action
        rows = [{**record, **about, "resolved_at": now} for record in records]
        if not rows:
            return
        append(
            self.tables.resolutions,
            pa.Table.from_pylist(rows, RESOLUTIONS),
            "resolutions of quarantined records",
            None if batch is None else Marker(batch.app_id, batch.batch_id),
        )

    def _condition(self, chosen: Chosen) -> str:
        """The choice as SQL. Raises TerminalError: no record has broken a rule of that name."""
        known = [row["rule"] for row in self._rows("SELECT DISTINCT unnest(rules) AS rule FROM records ORDER BY rule")]
        if chosen.rule is not None and chosen.rule not in known:
            raise TerminalError(
                what="no record in the quarantine has broken a rule of that name",
                where=f"{self.pipeline}, the choice of a rule",
                expected=f"one of: {', '.join(known)}" if known else "no rule: none was ever broken",
                found=chosen.rule,
                action=f"see `lakemark quarantine list {self.pipeline}`; nothing was changed",
            )
        return chosen.condition()

    @cached_property
    def _states(self) -> QuarantineStates:
        return QuarantineStates(self.pipeline, self.tables, self.events, self.state, with_bytes=self.with_bytes)

    @property
    def _database(self) -> duckdb.DuckDBPyConnection:
        return self._states.database

    def _rows(self, sql: str) -> list[Row]:
        return self._database.sql(sql).to_arrow_table().to_pylist()


def record_line(record: Row) -> str:
    """A quarantined record as a line for people."""
    value = record["value"]
    text = "null" if value is None else value.decode(errors="replace")
    return f"{record['topic']}-{record['partition']}@{record['offset']}  {record['reason']}  {_cut(text, 200)}"


def record_json(record: Row) -> JsonObject:
    """A quarantined record as data; its bytes as text."""
    texts = {name: None if record[name] is None else record[name].decode(errors="replace") for name in ("key", "value")}
    return {**record, **texts, "timestamp": record["timestamp"].isoformat()}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
