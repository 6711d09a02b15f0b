"""Makes rows of the ledger's table from events, and events from rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal, get_args

from include.protocol.backfill import Backfill
from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.errors import LedgerConflict
from include.protocol.first_offsets import FirstOffsets
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import (
    AttemptEnded,
    AttemptStarted,
    BackfillEnded,
    BackfillPlanned,
    BatchCommitted,
    BatchPlanned,
    Event,
    GenerationStarted,
    LedgerSnapshot,
    MaintenanceEnded,
    PipelineMoved,
    Rollback,
    TablesLeftOut,
    TopicsStarted,
    TurnTaken,
)
from include.protocol.participants import positions_from_json, positions_to_json
from include.protocol.proofs import PipelineAudited, proofs_from_json, proofs_to_json
from include.protocol.ranges import OffsetRange, offsets_from_json, offsets_to_json
from include.protocol.sinks import SinkStanding, SinkTold, sinks_from_json, sinks_to_json

EventName = Literal[
    "generation_started",
    "topics_started",
    "planned",
    "attempt_started",
    "attempt_ended",
    "committed",
    "state_kept",
    "backfill_planned",
    "backfill_ended",
    "tables_left_out",
    "turn_taken",
    "moved",
    "audited",
    "maintained",
    "sink_told",
]


def to_row(event: Event) -> JsonObject:
    """The event as a row of the ledger: generation, batch_id, event, attempt_id, details (JSON data)."""
    details: JsonObject
    match event:
        case GenerationStarted():
            return _row("generation_started", event.generation, 0, generation_to_json(event))
        case TopicsStarted():
            details = {
                "start_offsets": offsets_to_json(event.start_offsets),
                "topic_ids": dict(event.topic_ids),
                "cluster_id": event.cluster_id,
            }
            return _row("topics_started", event.generation, event.next_batch_id, details)
        case BatchPlanned(batch):
            details = {**batch.to_json(), "stands_on": positions_to_json(event.stands_on), "left": event.left}
            return _row("planned", batch.generation, batch.batch_id, details)
        case AttemptStarted():
            details = {"host": event.host, "started_by": event.started_by}
            return _row("attempt_started", event.generation, event.batch_id, details, attempt_id=event.attempt_id)
        case AttemptEnded():
            details = {
                "outcome": event.outcome,
                "phase_seconds": dict(event.phase_seconds),
                "problem": event.problem,
                "engines": dict(event.engines),
            }
            return _row("attempt_ended", event.generation, event.batch_id, details, attempt_id=event.attempt_id)
        case BatchCommitted():
            return _row(
                "committed", event.generation, event.batch_id, _commit_to_json(event), attempt_id=event.attempt_id
            )
        case LedgerSnapshot(batch, commit):
            details = {
                "batch": batch.to_json(),
                "commit": {**_commit_to_json(commit), "attempt_id": commit.attempt_id},
                "next_offsets": offsets_to_json(event.next_offsets),
                "topic_ids": dict(event.topic_ids),
                "cluster_id": event.cluster_id,
                "proofs": proofs_to_json(event.proofs),
                "left_out": sorted(event.left_out),
                **({"sinks": sinks_to_json(event.sinks)} if event.sinks else {}),
                **({"told": offsets_to_json(event.told)} if event.told else {}),
                **({"maintained_at": event.maintained_at} if event.maintained_at else {}),
            }
            return _row("state_kept", batch.generation, batch.batch_id, details)
        case BackfillPlanned(backfill):
            return _row("backfill_planned", backfill.generation, 0, backfill.to_json())
        case BackfillEnded():
            details = {"outcome": event.outcome, "ended_by": event.ended_by}
            return _row("backfill_ended", -event.number, 0, details)
        case TablesLeftOut():
            return _row("tables_left_out", event.generation, 0, {"chunk": event.chunk, "tables": list(event.tables)})
        case TurnTaken():
            over = {} if event.over == "planning" else {"over": event.over}
            return _row("turn_taken", event.generation, 0, {"holder": event.holder, "until": event.until, **over})
        case PipelineMoved():
            return _row("moved", event.generation, 0, {"lake": event.lake, "to": event.to})
        case PipelineAudited():
            details = {"started_by": event.started_by, "looks": proofs_to_json(event.looks)}
            return _row("audited", event.generation, event.batch_id, details)
        case MaintenanceEnded():
            details = {"ended_at": event.ended_at, "started_by": event.started_by}
            return _row("maintained", event.generation, 0, details)
        case SinkTold():
            told = {"sink": event.sink, "standing": event.standing.to_json(), "told_by": event.told_by}
            details = {**told, "reason": event.reason, "rows": event.rows}
            return _row("sink_told", event.generation, 0, details)


def from_row(row: JsonMapping) -> Event:
    """The inverse of `to_row`."""
    details, key = row["details"], (row["generation"], row["batch_id"])
    match row["event"]:
        case "generation_started":
            return generation_from_json(row["generation"], details)
        case "topics_started":
            starts = offsets_from_json(details["start_offsets"])
            return TopicsStarted(*key, **{**details, "start_offsets": starts})
        case "planned":
            stands_on = positions_from_json(details.get("stands_on")) or {}
            return BatchPlanned(Batch.from_json(details), stands_on, details.get("left"))
        case "attempt_started":
            return AttemptStarted(*key, row["attempt_id"], **details)
        case "attempt_ended":
            return AttemptEnded(*key, row["attempt_id"], **details)
        case "committed":
            return _commit_from_json(*key, {**details, "attempt_id": row["attempt_id"]})
        case "state_kept":
            kept = {
                "batch": Batch.from_json(details["batch"]),
                "commit": _commit_from_json(*key, details["commit"]),
                "next_offsets": offsets_from_json(details["next_offsets"]),
                "proofs": proofs_from_json(details.get("proofs", {})),
                "left_out": frozenset(details.get("left_out", ())),
                "sinks": sinks_from_json(details.get("sinks", {})),
                "told": offsets_from_json(details.get("told", [])),
            }
            return LedgerSnapshot(**{**details, **kept})
        case "backfill_planned":
            return BackfillPlanned(Backfill.from_json(details))
        case "backfill_ended":
            return BackfillEnded(-row["generation"], **details)
        case "tables_left_out":
            return TablesLeftOut(row["generation"], details["chunk"], tuple(details["tables"]))
        case "turn_taken":
            return TurnTaken(row["generation"], **details)
        case "moved":
            return PipelineMoved(row["generation"], details["lake"], details["to"])
        case "audited":
            return PipelineAudited(*key, details["started_by"], proofs_from_json(details["looks"]))
        case "maintained":
            return MaintenanceEnded(row["generation"], **details)
        case "sink_told":
            return SinkTold(row["generation"], **{**details, "standing": SinkStanding.from_json(details["standing"])})
        case other:
            raise LedgerConflict(
                what="the ledger holds an event of an unknown kind",
                where=f"generation {row['generation']} batch {row['batch_id']}",
                expected=f"one of {', '.join(get_args(EventName))}",
                found=repr(other),
                action="if a newer Lakemark wrote it, use that one; if not, `lakemark ledger rebuild NAME` makes the "
                "ledger again from the target's own commits",
            )


def _commit_to_json(event: BatchCommitted) -> JsonObject:
    """The fields that have no column."""
    return {
        "fingerprint": event.fingerprint,
        "table_version": event.table_version,
        "table_id": event.table_id,
        "committed_at": event.committed_at,
        "counts": event.counts and event.counts.to_json(),
        "quarantine_version": event.quarantine_version,
        "settle_seconds": event.settle_seconds,
        "attempt_seconds": event.attempt_seconds,
        "quality": event.quality,
        "positions": positions_to_json(event.positions),
        "rollback": event.rollback and asdict(event.rollback),
    }


def _commit_from_json(generation: int, batch_id: int, data: JsonMapping) -> BatchCommitted:
    made = {
        "counts": data["counts"] and BatchCounts(**data["counts"]),
        "positions": positions_from_json(data.get("positions")),
        "rollback": (rollback := data.get("rollback")) and Rollback(**rollback),
    }
    return BatchCommitted(generation, batch_id, **{**data, **made})


def generation_to_json(event: GenerationStarted) -> JsonObject:
    """The fields without the generation's number, which has a column."""
    seldom = {"first": event.first and event.first.to_json(), "rules": event.rules, "deliver": event.deliver}
    return {
        "start_offsets": offsets_to_json(event.start_offsets),
        "topic_ids": dict(event.topic_ids),
        "cluster_id": event.cluster_id,
        "origin": event.origin,
        "reason": event.reason,
        "started_by": event.started_by,
        "target_version": event.target_version,
        "recreated": list(event.recreated),
        "skipped": [r.to_json() for r in event.skipped],
        "table_id": event.table_id,
        "positions": positions_to_json(event.positions),
        "restored_to": event.restored_to,
        "form": event.form,
        **{name: value for name, value in seldom.items() if value is not None},
        **({"told": offsets_to_json(event.told)} if event.told else {}),
    }


def generation_from_json(generation: int, data: JsonMapping) -> GenerationStarted:
    starts = offsets_from_json(data["start_offsets"])
    made = {
        "start_offsets": starts,
        "recreated": tuple(data["recreated"]),
        "skipped": tuple(OffsetRange.from_json(r) for r in data["skipped"]),
        "positions": positions_from_json(data.get("positions")),
        "form": data.get("form", 1),
        "told": offsets_from_json(data.get("told", [])),
        "first": (first := data.get("first")) and FirstOffsets.from_json(first),
    }
    return GenerationStarted(generation, **{**data, **made})


def _row(
    event: EventName, generation: int, batch_id: int, details: JsonObject, attempt_id: str | None = None
) -> JsonObject:
    return {
        "generation": generation,
        "batch_id": batch_id,
        "event": event,
        "attempt_id": attempt_id,
        "details": details,
    }
