"""The page's data about a pipeline, as JSON. Times are ISO 8601 in UTC, ages are seconds; null means not known."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from lakemark_names import DAG_PREFIX

from include.control.sink_form import CHOICES
from include.monitoring.health import Scheduler, SetAside, judge, unmaintained_because
from include.monitoring.overview import Seen
from include.participants.catalog import Catalog
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import AttemptRecord
from include.protocol.ranges import TopicPartition


def summary(found: Seen, scheduler: Scheduler, overdue_hours: int | None) -> JsonObject:
    """The data of a pipeline in the list. `ages` says how old each source's part is; Airflow is asked now."""
    pipeline, digest, now = found.pipeline, found.digest, time.time()
    lag_seconds = found.lag_seconds(now)
    last = digest.last if digest else None
    attempt = _last_attempt(found)
    stale = pipeline.stale_after_minutes
    health = judge(
        found.problem,
        attempt,
        _committed_at(found),
        waiting_seconds=lag_seconds,
        stale_after_seconds=None if stale is None else stale * 60,
        scheduler=scheduler,
        proofs={name: digest.proofs.get(name, {}) for name in Catalog.of(pipeline).names} if digest else {},
        set_aside=_set_aside(found),
        unmaintained=_unmaintained(found, overdue_hours),
        name=pipeline.name,
    )
    # Airflow knows about a failure before the ledger has been read.
    loading = digest is None and health.state != "failed" and found.problem is None
    quarantine = found.quarantine
    return {
        "name": pipeline.name,
        "description": pipeline.description,
        "dag_id": DAG_PREFIX + pipeline.name,
        "table": pipeline.target.table,
        "sinks": [*pipeline.sinks],
        "sink_choices": [*CHOICES] if pipeline.sinks else [],  # of what they get, in forms
        "schedule": pipeline.starts_in_words.replace("`", ""),  # it is written for Markdown
        "state": "loading" if loading else health.state,
        "why": health.why,
        "paused": scheduler.paused,
        "failed_run": scheduler.failed_run,
        "failed_dag": scheduler.failed_dag,
        "kafka_problem": found.kafka_problem,
        "lag_records": found.lag_records,
        "lag_seconds": lag_seconds,
        "generation": digest.generation if digest else None,
        "last_batch": last.batch.batch_id if last else None,
        "pending": bool(digest and digest.pending),
        "committed_at": digest.commit.committed_at if digest and digest.commit else None,
        "table_version": digest.commit.table_version if digest and digest.commit else None,
        "commits": digest.sums.commits if digest else 0,
        "quarantine": None if quarantine is None else {"waiting": quarantine.waiting, "ever": quarantine.ever},
        "open_backfills": digest.open_backfills if digest else (),
        "ages": {
            "ledger": _age(found.ledger_at, now),
            "kafka": _age(found.kafka_at, now),
            "quarantine": _age(quarantine.at if quarantine else None, now),
        },
    }


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)


def _last_attempt(found: Seen) -> AttemptRecord | None:
    pending = found.digest.pending if found.digest else None
    return pending.last_attempt if pending else None


def _committed_at(found: Seen) -> datetime | None:
    commit = found.digest.commit if found.digest else None
    return datetime.fromisoformat(commit.committed_at) if commit and commit.committed_at else None


def _set_aside(found: Seen) -> SetAside | None:
    commit = found.digest.commit if found.digest else None
    if commit is None or commit.counts is None or found.quarantine is None:
        return None
    counts = commit.counts
    return SetAside(commit.batch_id, counts.read, counts.quarantined, waiting=found.quarantine.waiting)


def _unmaintained(found: Seen, overdue_hours: int | None) -> str | None:
    halves = ((found.pipeline.landing_name, found.landing), (found.pipeline.name, found.digest))
    because = (
        unmaintained_because(name, of.maintained_at, of.first_event_at, now=datetime.now(UTC), hours_max=overdue_hours)
        for name, of in halves
        if name is not None and of is not None and of.first_event_at is not None
    )
    return next((why for why in because if why is not None), None)


def partition_facts(found: Seen, tp: TopicPartition) -> JsonObject:
    """A partition's offsets, ends exclusive; null if not known."""
    extent, digest = (found.extents or {}).get(tp), found.digest
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "log_start": extent.log_start_offset if extent else None,
        "log_end": extent.end_offset if extent else None,
        "first": digest.first_offsets.get(tp) if digest else None,
        "committed": digest.committed_offsets.get(tp) if digest else None,
        "planned": digest.next_offsets.get(tp) if digest else None,
    }
