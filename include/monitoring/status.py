"""How far pipelines are: from the ledger, and from Kafka if it answers."""

from __future__ import annotations

from datetime import UTC, datetime

from include.control.coordinator import Coordinator
from include.control.lag import Lag
from include.control.quarantine import Quarantine
from include.monitoring.proofs import proof_facts
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import Idle
from include.settings import Settings


def status(settings: Settings, pipeline: Pipeline) -> JsonObject:
    """The state of a pipeline as data.

    Keys: pipeline, generation, batches, committed_through, pending (batch id, attempts; or null), mends (tables that
    are not as the last batch left them: the next batch mends them, also without records), last_commit
    (batch_id, table_version, committed_at, counts, quality), records (sums of all batches' counts), quarantine (records
    that are pending, replayed, discarded, applied since), attempts, next_offsets, lag_records (offsets that no
    committed batch has read) and lag_seconds (age of the oldest of them), kafka ("answers", or why both are null),
    proofs (what audits have proven, by table: see `proof_facts`),
    problem (why the pipeline does not go on, and what to do; null if no problem is known).
    """
    coordinator = Coordinator(settings, pipeline)
    state, mends, problem = _state(coordinator)
    commits = [record.commit for record in state.batches if record.commit]
    try:
        lag, kafka = Lag.of(pipeline, state), "answers"
    except LakemarkError as error:
        lag, kafka = None, f"{error.what}: {error.found}"
    return {
        "pipeline": pipeline.name,
        "generation": state.generation,
        "batches": len(state.batches),
        "committed_through": state.committed_through,
        "pending": state.pending and _pending(state.pending),
        "mends": list(mends),
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
        "quarantine": _became(coordinator),
        "attempts": sum(len(record.attempts) for record in state.batches),
        "next_offsets": {str(tp): offset for tp, offset in sorted(state.next_offsets.items())},
        "lag_records": lag and lag.records,
        "lag_seconds": lag and round(lag.seconds, 1),
        "kafka": kafka,
        "proofs": proof_facts(Catalog.of(pipeline).names, state.proofs, state.generation, datetime.now(UTC)),
        "problem": problem,
    }


def _state(coordinator: Coordinator) -> tuple[LedgerState, tuple[str, ...], str | None]:
    """The ledger's state, what the next batch mends, and the problem that the next plan or attempt would meet."""
    state = LedgerState()
    try:
        state = coordinator.ledger.state()
        plan = coordinator.preview()
    except LakemarkError as error:
        return state, (), str(error)
    mends = () if isinstance(plan, Idle) else plan.batch.mends
    attempt = state.pending.attempts[-1] if state.pending and state.pending.attempts else None
    if attempt is None or attempt.problem:
        return state, mends, attempt.problem if attempt else None
    if attempt.outcome is None:
        return (
            state,
            mends,
            f"the last attempt (of {attempt.started_by} on {attempt.host}) has not reported how it ended: it still "
            "runs, or it was killed. What to do: nothing if it runs; else run the pipeline again, which first settles "
            "from the log",
        )
    return state, mends, None


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
