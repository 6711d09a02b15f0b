"""Reads ledgers for the page: a digest that is kept up to date, and pages of batches. Nothing is folded from the start,
so a ledger of 100,000 batches answers as fast as one of a hundred."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from include.lake.delta_tables import OpenedTable, open_table, query
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.monitoring.ledger_digest import LedgerDigest
from include.protocol.json_data import JsonMapping, JsonObject

_COARSE_NS = 1_000_000_000
_ROWS = 20_000  # read at once: bounds the memory


@dataclass
class LedgerReader:
    """Reads one ledger and keeps what it has read. Not for several threads at once."""

    uri: LakeUri
    _digest: LedgerDigest = field(init=False, default_factory=LedgerDigest)
    _changed_at: int | None = field(init=False, default=None)
    _table_id: str | None = field(init=False, default=None)

    def digest(self) -> LedgerDigest:
        """The ledger's digest as of now; reads only what is new.

        Raises:
            TableDamaged: see `open_table`. LedgerConflict: see there.
        """
        changed_at = Ledger(self.uri).changed_at()
        if changed_at != self._changed_at or changed_at is None:
            self._read(changed_at)
        return self._digest

    def _read(self, changed_at: int | None) -> None:
        table = open_table(self.uri)
        table_id = str(table.metadata().id) if table is not None else None
        if table_id != self._table_id:  # rebuilt by `ledger rebuild`
            self._digest, self._table_id = LedgerDigest(), table_id
        if table is not None:
            self._take_in(table)
        # File times are coarse: a file this young may change again and keep its time.
        old_enough = changed_at is not None and time.time_ns() - changed_at > _COARSE_NS
        self._changed_at = changed_at if old_enough else None

    def _take_in(self, table: OpenedTable) -> None:
        """Reads the new rows, some at a time. Attempts matter only for the batch that was planned last."""
        sql = "select max(sequence) as last, max(case when event = 'planned' then sequence end) as planned from t"
        [found] = query(table, sql)
        last, planned = found["last"] if found["last"] is not None else -1, found["planned"] or 0
        for low in range(self._digest.sequence, last + 1, _ROWS):
            window = f"sequence >= {low} and sequence < {low + _ROWS}"
            wanted = f"(event not like 'attempt%' or sequence > {planned})"
            rows = query(table, f"select * from t where {window} and {wanted} order by sequence")
            self._digest = self._digest.after(map(_with_details, rows))

    def batches(self, generation: int, before: int | None, limit: int) -> list[JsonObject]:
        """The newest `limit` batches of a generation below `before` (None: of all), newest first; see `_batch`."""
        table = open_table(self.uri)
        if table is None:
            return []
        of_generation = f"generation = {int(generation)}"
        if before is None:
            [found] = query(table, f"select max(batch_id) as n from t where {of_generation} and event = 'planned'")
            before = -1 if found["n"] is None else found["n"] + 1
        low = max(0, before - limit)
        window = f"{of_generation} and batch_id >= {low} and batch_id < {int(before)}"
        rows = query(table, f"select * from t where {window} order by sequence")
        batches: dict[int, list[JsonObject]] = {}
        for row in map(_with_details, rows):
            batches.setdefault(row["batch_id"], []).append(row)
        told = [_batch(events) for _, events in sorted(batches.items(), reverse=True)]
        return [batch for batch in told if batch is not None]

    def generations(self) -> list[JsonObject]:
        """How every generation after the first began, newest first: generation, at, origin, reason, started_by,
        skipped (ranges that a person gave up)."""
        return [
            {"generation": row["generation"], "at": row["recorded_at"].isoformat()}
            | {name: row["details"][name] for name in ("origin", "reason", "started_by")}
            | {"skipped": [_range(r) for r in row["details"]["skipped"]]}
            for row in self._events("event = 'generation_started'")
        ]

    def backfills(self, newest: int = 20) -> list[JsonObject]:
        """The newest backfills, newest first: number, at, into, reason, requested_by, outcome (null: it has not ended),
        and chunks, each [landed, [topic, partition, start, end] ...]; whether it landed is what the attempts said."""
        planned = self._events("event = 'backfill_planned'")[:newest]
        ended = {row["generation"]: row["details"]["outcome"] for row in self._events("event = 'backfill_ended'")}
        landed = {
            (row["generation"], row["batch_id"])
            for row in self._events("generation < 0 and event = 'attempt_ended'")
            if row["details"]["outcome"] in ("applied", "already_applied")
        }
        return [
            {
                "number": -row["generation"],
                "at": row["recorded_at"].isoformat(),
                "outcome": ended.get(row["generation"]),
            }
            | {name: row["details"][name] for name in ("into", "reason", "requested_by")}
            | {
                "chunks": [
                    [(row["generation"], n) in landed, *ranges] for n, ranges in enumerate(row["details"]["chunks"])
                ]
            }
            for row in planned
        ]

    def _events(self, condition: str) -> list[JsonObject]:
        """Rows, newest first."""
        table: OpenedTable | None = open_table(self.uri)
        if table is None:
            return []
        return list(map(_with_details, query(table, f"select * from t where {condition} order by sequence desc")))


def _batch(events: Iterable[JsonMapping]) -> JsonObject | None:
    """One batch as data, from its events; None without its plan.

    Keys: generation, batch_id, planned_at, ranges ([topic, partition, start, end]), attempts (attempt_id, started_at,
    ended_at, started_by, log, host, outcome, problem, phase_seconds), commit (null, or table_version, committed_at,
    settled_at, counts, quarantine_version, settle_seconds).
    """
    batch: JsonObject | None = None
    attempts: dict[str, JsonObject] = {}
    for row in events:
        at, details = row["recorded_at"].isoformat(), row["details"]
        match row["event"]:
            case "planned":
                ranges = [_range(r) for r in details["ranges"]]
                batch = {"generation": row["generation"], "batch_id": row["batch_id"], "planned_at": at}
                batch |= {"ranges": ranges, "commit": None}
            case "attempt_started":
                who, _, log = details["started_by"].partition(" ")
                attempt = {"attempt_id": row["attempt_id"], "started_at": at, "ended_at": None, "started_by": who}
                attempt |= {"log": log if log.startswith("dags/") else None, "host": details["host"]}
                attempts[row["attempt_id"]] = attempt | {"outcome": None, "problem": None, "phase_seconds": {}}
            case "attempt_ended" if row["attempt_id"] in attempts:
                attempts[row["attempt_id"]] |= {"ended_at": at, **details}
            case "committed" if batch is not None:
                shown = ("table_version", "committed_at", "counts", "quarantine_version", "settle_seconds")
                batch["commit"] = {"settled_at": at} | {name: details[name] for name in shown}
    return batch and {**batch, "attempts": list(attempts.values())}


def _range(data: JsonMapping) -> list[Any]:
    return [data[name] for name in ("topic", "partition", "start_offset", "end_offset")]


def _with_details(row: JsonObject) -> JsonObject:
    return {**row, "details": json.loads(row["details"])}
