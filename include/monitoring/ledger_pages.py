"""Pages of a ledger, as a digest has seen it: all that one answer tells is from one moment.

Nothing is folded from the start: a ledger of 100,000 batches answers as fast as one of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from include.lake.delta_tables import OpenedTable, open_table, query
from include.lake.uri import LakeUri
from include.monitoring.ledger_digest import LedgerDigest, Sums
from include.monitoring.ledger_reader import with_details
from include.monitoring.timeline import ERRORS, EVENTS
from include.monitoring.trends import span, trend
from include.protocol.json_data import JsonMapping, JsonObject

_TREND_EVENTS = 60_000  # that one trend reads at most


@dataclass(frozen=True)
class LedgerPages:
    uri: LakeUri
    seen: LedgerDigest

    def batches(self, before: int | None, limit: int) -> list[JsonObject]:
        """The newest `limit` batches of the digest's generation below `before` (None: of all), newest first; see
        `_batch`."""
        if before is None:
            before = self.seen.last.batch.batch_id + 1 if self.seen.last is not None else 0
        low = max(0, before - limit)
        rows = self._events(f"generation = {self.seen.generation} and batch_id >= {low} and batch_id < {int(before)}")
        batches: dict[int, list[JsonObject]] = {}
        for row in reversed(rows):
            batches.setdefault(row["batch_id"], []).append(row)
        told = [_batch(events) for _, events in sorted(batches.items(), reverse=True)]
        return [batch for batch in told if batch is not None]

    def generations(self) -> list[JsonObject]:
        """How every generation after the first began, newest first: generation, at, origin, reason, started_by,
        skipped (ranges that a person gave up), commits and records (sums, see `Sums`). The first one has only these
        sums, and is there if there is a second one."""
        began = [
            {"generation": row["generation"], "at": row["recorded_at"].isoformat()}
            | {name: row["details"][name] for name in ("origin", "reason", "started_by")}
            | {"skipped": [_range(r) for r in row["details"]["skipped"]]}
            for row in self._events("event = 'generation_started'")
        ]
        known = {generation["generation"] for generation in began}
        earlier = [{"generation": number} for number in self.seen.by_generation if number not in known] if began else []
        sums = self.seen.by_generation
        return [
            {**one, "commits": of.commits, "records": dict(of.records)}
            for one in (*began, *sorted(earlier, key=lambda one: -one["generation"]))
            for of in [sums.get(one["generation"], Sums())]
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

    def trend(self, hours: int) -> JsonObject:
        """How the pipeline did in the last hours: `points`, see `trend`; `is_cut`: older events of that time were left
        out, for there are too many."""
        since, until = span(hours, datetime.now(UTC))
        chosen = "generation > 0 and event in ('planned', 'attempt_ended', 'committed')"
        rows = self._events(f"{chosen} and recorded_at >= timestamp '{since.isoformat()}'", _TREND_EVENTS)
        return {"hours": hours, "points": trend(rows, since, until), "is_cut": len(rows) == _TREND_EVENTS}

    def actions_and_errors(self, limit: int) -> list[JsonObject]:
        """The newest events that a timeline tells, with details as data."""
        return self._events(f"{EVENTS} or {ERRORS}", limit)

    def _events(self, condition: str, limit: int | None = None) -> list[JsonObject]:
        """Rows, newest first."""
        table: OpenedTable | None = open_table(self.uri)
        if table is None:
            return []
        where = f"({condition}) and sequence < {self.seen.sequence}"
        newest = "" if limit is None else f" limit {limit}"
        return list(map(with_details, query(table, f"select * from t where {where} order by sequence desc{newest}")))


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
