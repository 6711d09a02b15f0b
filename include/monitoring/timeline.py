"""What people did to a pipeline, and what went wrong: one line for each, from the ledger's events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import CUT_OVER, LOSS, PROMOTION, UPGRADE

EVENTS = "event in ('generation_started', 'backfill_planned', 'backfill_ended', 'tables_left_out', 'audited')"
ERRORS = "(event = 'attempt_ended' and details not like '%\"problem\": null%')"
_BY_ITSELF = {"commit metadata": "rebuild", "rows": "rebuild", UPGRADE: "upgrade", LOSS: "loss", "archive": "landing"}


def timeline(rows: Iterable[JsonMapping], discarded: Iterable[JsonMapping], limit: int) -> list[JsonObject]:
    """The newest `limit` lines, newest first: at, kind (reset, skip, backfill, replay, cancel, promote, discard, audit,
    error ...), what (a sentence), who, why (a person's reason; null: none), is_error.

    Args:
        rows: events that EVENTS and ERRORS choose, with details as data. discarded: of the quarantine: at, records,
        reason, resolved_by.
    """
    told = [line for row in rows if (line := _line(row)) is not None]
    told += [
        _told(
            row["at"],
            "discard",
            f"{row['records']:,} records of the quarantine",
            who=row["resolved_by"],
            why=row["reason"],
        )
        for row in discarded
    ]
    return sorted(told, key=lambda line: line["at"], reverse=True)[:limit]


def _line(row: JsonMapping) -> JsonObject | None:
    at, details, generation, batch_id = row["recorded_at"], row["details"], row["generation"], row["batch_id"]
    match row["event"]:
        case "generation_started":
            given_up = sum(r["end_offset"] - r["start_offset"] for r in details["skipped"])
            what = f"generation {generation} began from {details['origin']}"
            what += f"; {given_up:,} offsets were given up" if given_up else ""
            is_promoted = details["origin"].startswith((PROMOTION, CUT_OVER))
            kind = "promote" if is_promoted else _BY_ITSELF.get(details["origin"], "reset")
            return _told(at, "skip" if given_up else kind, what, who=details["started_by"], why=details["reason"])
        case "backfill_planned":
            chunks, number = len(details["chunks"]), -generation
            kind = "replay" if details.get("records") else "backfill"
            into = "into a new table" if details["into"] == "new" else "into the table"
            what = f"{kind} {number} was planned: {chunks:,} chunk{'s' if chunks != 1 else ''}, {into}"
            return _told(at, kind, what, who=details["requested_by"], why=details["reason"])
        case "backfill_ended":
            return _told(at, "backfill", f"backfill {-generation} ended: {details['outcome']}", details["ended_by"])
        case "tables_left_out":
            return _told(at, "left out", f"tables were left out: {', '.join(details['tables'])}", "")
        case "audited":
            findings = {name: sum(look["findings"] for look in looks.values()) for name, looks in _looks(details)}
            bad = ", ".join(f"{name} {number:,}" for name, number in findings.items() if number)
            depth = "rows" if any("rows" in looks for _, looks in _looks(details)) else "log"
            what = f"audit by {depth}: {f'findings in {bad}' if bad else 'no findings'}"
            return _told(at, "audit", what, details["started_by"], is_error=bool(bad))
        case "attempt_ended" if details["problem"]:
            of = f"batch {batch_id}" if generation > 0 else f"backfill {-generation}, chunk {batch_id}"
            return _told(at, "error", f"{of}: {details['problem']}", "", is_error=True)
    return None


def _looks(details: JsonMapping) -> Iterable[tuple[str, JsonMapping]]:
    looks: JsonMapping = details["looks"]
    return looks.items()


def _told(
    at: datetime | str, kind: str, what: str, who: str, why: str | None = None, is_error: bool = False
) -> JsonObject:
    moment = at if isinstance(at, str) else at.isoformat()
    return {"at": moment, "kind": kind, "what": what, "who": who, "why": why or None, "is_error": is_error}
