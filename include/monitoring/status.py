"""How far pipelines are: from the ledger, and from Kafka if it answers."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from typing import NamedTuple

from include.control.coordinator import Coordinator
from include.control.lag import Lag
from include.control.quarantine import Quarantine
from include.monitoring.proofs import proof_facts
from include.monitoring.sinks import facts_of
from include.monitoring.staleness import look_at_maintenance
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError, StoreAway
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import Idle
from include.settings import Settings
from include.sources.kafka import client_key, verify_answers

_KAFKA_SECONDS = 2.0


def status(
    settings: Settings, pipeline: Pipeline, known_away: dict[Hashable, LakemarkError] | None = None
) -> JsonObject:
    """The state of a pipeline as data.

    Args:
        known_away: brokers, and lakes, that do not answer, and why. It is added to, so that they are waited for only
            once.

    Keys: pipeline, generation, batches, committed_through (null if the ledger cannot be read), pending (batch id,
    attempts; or null), mends (tables that are not as the last batch left them: the next batch mends them, also without
    records), last_commit
    (batch_id, table_version, committed_at, counts, quality), records (sums of the counts of the generation's batches),
    quarantine (records that are pending, replayed, discarded, applied since), attempts, next_offsets, lag_records
    (offsets that no committed batch has read) and lag_seconds (age of the oldest of them), kafka ("answers", or why
    both are null), proofs (what audits have proven, by table: see `proof_facts`), maintenance (when it last ended; why
    it is overdue, or null), sinks (see `SinkFacts`), running (about an attempt that has not ended; or null), problem
    (why the pipeline does not go on, and what to do; null if no problem is known).
    """
    coordinator = Coordinator(settings, pipeline)
    known = {} if known_away is None else known_away
    away = _away(pipeline, known)
    found = _state(coordinator, away, known)
    state = found.state
    commits = [record.commit for record in state.batches if record.commit]
    try:
        lag = Lag.of(pipeline, state) if away is None and found.is_known else None
    except LakemarkError as error:
        lag, away = None, error
    return {
        "pipeline": pipeline.name,
        "generation": state.generation,
        "batches": len(state.batches),
        "committed_through": state.committed_through if found.is_known else None,
        "pending": state.pending and _pending(state.pending),
        "mends": list(found.mends),
        "last_commit": {
            "batch_id": commits[-1].batch_id,
            "table_version": commits[-1].table_version,
            "committed_at": commits[-1].committed_at,
            "counts": commits[-1].counts and commits[-1].counts.to_json(),
            "quality": commits[-1].quality,
        }
        if commits
        else None,
        "records": _sums(commits),
        "quarantine": _became(coordinator) if found.is_known else {},
        "attempts": sum(len(record.attempts) for record in state.batches),
        "next_offsets": {str(tp): offset for tp, offset in sorted(state.next_offsets.items())},
        "lag_records": lag and lag.records,
        "lag_seconds": lag and round(lag.seconds, 1),
        "kafka": "answers" if away is None else f"{away.what}: {away.found}",
        "proofs": proof_facts(Catalog.of(pipeline).names, state.proofs, state.generation, datetime.now(UTC)),
        "maintenance": {
            "ended_at": state.maintained_at,
            "overdue": _unmaintained(coordinator) if found.is_known else None,
        },
        "sinks": [facts_of(settings, pipeline, name).to_json() for name in pipeline.sinks if found.is_known],
        "running": found.running,
        "problem": found.problem,
    }


def _unmaintained(coordinator: Coordinator) -> str | None:
    try:
        return look_at_maintenance(coordinator.settings, coordinator.pipeline)
    except LakemarkError:  # the problem says why
        return None


def _away(pipeline: Pipeline, known: dict[Hashable, LakemarkError]) -> LakemarkError | None:
    """Why Kafka cannot be asked; None if it answers. It is waited for once, not for every pipeline."""
    key = client_key(pipeline.source)
    if key not in known:
        try:
            verify_answers(pipeline.source, _KAFKA_SECONDS)
        except LakemarkError as error:
            known[key] = error
    return known.get(key)


class _Found(NamedTuple):
    state: LedgerState
    mends: tuple[str, ...] = ()  # what the next batch mends
    running: str | None = None  # an attempt that has not ended
    problem: str | None = None  # that the next plan or attempt would meet
    is_known: bool = True  # the ledger could be read


def _state(coordinator: Coordinator, away: LakemarkError | None, known: dict[Hashable, LakemarkError]) -> _Found:
    lake = coordinator.settings.lake
    if lake in known:
        return _Found(LedgerState(), problem=str(known[lake]), is_known=False)
    try:
        state = coordinator.ledger.state()
    except LakemarkError as error:
        if isinstance(error, StoreAway):
            known[lake] = error
        return _Found(LedgerState(), problem=str(error), is_known=False)
    try:
        if away is not None and coordinator.pipeline.merge_every is None:
            return _Found(state, problem=str(away))
        plan = coordinator.preview()
    except LakemarkError as error:
        return _Found(state, problem=str(error))
    mends = () if isinstance(plan, Idle) else plan.batch.mends
    attempt = state.pending.last_attempt if state.pending else None
    if attempt is None or attempt.outcome is not None or attempt.problem:
        return _Found(state, mends, problem=attempt.problem if attempt else None)
    running = (
        f"an attempt (of {attempt.started_by} on {attempt.host}) has not ended: it runs, or it was killed, and then "
        "the next run settles it from the log first"
    )
    return _Found(state, mends, running=running)


def _became(coordinator: Coordinator) -> dict[str, int]:
    """Quarantined records by their state; empty if that cannot be read (the problem says why)."""
    try:
        reasons = Quarantine.of(coordinator, with_bytes=False).summary()
    except LakemarkError:
        return {}
    names = ("pending", "replayed", "discarded", "applied")
    return {name: sum(row[name] for row in reasons) for name in names} if reasons else {}


def batch_facts(record: BatchRecord) -> JsonObject:
    """One batch as data: ranges, attempts, commit."""
    return {
        "batch_id": record.batch.batch_id,
        "ranges": [str(r) for r in record.batch.ranges],
        "attempts": [
            {"attempt_id": a.attempt_id, "started_by": a.started_by, "outcome": a.outcome or "no word"}
            | {"phase_seconds": dict(a.phase_seconds)}
            for a in record.attempts
        ],
        "table_version": record.commit and record.commit.table_version,
        "counts": record.commit and record.commit.counts and record.commit.counts.to_json(),
        "settle_seconds": record.commit and record.commit.settle_seconds,
    }


def _pending(record: BatchRecord) -> JsonObject:
    return {"batch_id": record.batch.batch_id, "attempts": len(record.attempts), "records_max": record.batch.width}


def _sums(commits: list) -> dict[str, int]:
    sums: dict[str, int] = {}
    for commit in commits:
        for name, number in (commit.counts.to_json() if commit.counts else {}).items():
            sums[name] = sums.get(name, 0) + number
    return sums
