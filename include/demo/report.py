"""Makes the demo's final report, for people and as data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from include.control.coordinator import Coordinator
from include.demo import oracle
from include.demo.bad_batch import BadBatchOutcome
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.settings import Settings


@dataclass
class Story:
    """What happened, for the report."""

    began: float = field(default_factory=time.monotonic)
    events: int = 0  # those that the first run reads
    late_events: int = 0  # those of the batch with bad records
    quality: BadBatchOutcome | None = None
    kills: list[JsonObject] = field(default_factory=list)
    runs: list[JsonObject] = field(default_factory=list)
    rerun: JsonObject = field(default_factory=dict)
    drain_seconds: float = 0.0

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)


def batch_line(record: BatchRecord) -> str:
    assert record.commit is not None and record.commit.counts is not None
    counts = record.commit.counts
    phases = _phases(record)
    return (
        f"batch {record.batch.batch_id} is version {record.commit.table_version}: {counts.read:,} read, "
        f"{counts.applied:,} applied, {counts.superseded:,} superseded, {counts.stale:,} stale; "
        f"{len(record.attempts)} attempts; " + ", ".join(f"{name} {s:.1f} s" for name, s in phases.items())
    )


def _phases(record: BatchRecord) -> dict[str, float]:
    """Seconds by phase for the attempt that landed; empty if it was killed after its commit."""
    seconds = next((dict(a.phase_seconds) for a in record.attempts if a.outcome == "applied"), {})
    if record.commit and record.commit.settle_seconds is not None:
        seconds["settle"] = record.commit.settle_seconds
    return seconds


def build_report(
    settings: Settings, pipeline: Pipeline, stack: Stack, story: Story, verdict: oracle.Comparison
) -> JsonObject:
    records = Coordinator(settings, pipeline).ledger.state().batches
    steady = _steady(records, {kill["batch_id"] for kill in story.kills})
    steady_seconds = {name: sum(_phases(r)[name] for r in steady) for name in (_phases(steady[0]) if steady else ())}
    steady_events = sum(r.commit.counts.read for r in steady if r.commit and r.commit.counts)
    attempts = {r.batch.batch_id: [a.outcome or "killed" for a in r.attempts] for r in records}
    unchanged = story.rerun["table_version_before"] == story.rerun["table_version_after"]
    return {
        "finished_at": datetime.now(UTC).isoformat(),
        # The faults are part of the demonstration: a kill that came too late to do harm shows nothing.
        "good": verdict.equal
        and unchanged
        and story.rerun["outcome"] == "already_applied"
        and all(attempts[kill["batch_id"]][0] not in ("applied", "already_applied") for kill in story.kills)
        and len(story.kills) == 2
        and story.quality is not None
        and story.quality.as_told,
        "pipeline": pipeline.name,
        "events": story.events + story.late_events,
        "batches": [
            {
                "batch_id": r.batch.batch_id,
                "ranges": [str(x) for x in r.batch.ranges],
                "attempts": attempts[r.batch.batch_id],
                "table_version": r.commit and r.commit.table_version,
                "counts": r.commit and r.commit.counts and r.commit.counts.to_json(),
                "phase_seconds": _phases(r),
            }
            for r in records
        ],
        "ranges": sum(len(r.batch.ranges) for r in records),
        "attempts": sum(len(r.attempts) for r in records),
        "runs": story.runs,
        "kills": story.kills,
        "rerun": {**story.rerun, "changed_nothing": unchanged},
        "quality": story.quality and story.quality.to_json(),
        "rows": verdict.rows_found,
        "rows_expected": verdict.rows_expected,
        "never_departed": verdict.never_departed_found,
        "mismatches": sum(verdict.mismatches.values()) + verdict.keys_missing + verdict.keys_extra,
        "verdict": {**asdict(verdict), "equal": verdict.equal},
        "drain_seconds": round(story.drain_seconds, 1),
        "events_per_second_with_airflow_and_faults": round(story.events / story.drain_seconds),
        "events_per_second_steady": round(steady_events / sum(steady_seconds.values())) if steady else None,
        "phase_seconds_steady": {name: round(s / len(steady), 2) for name, s in steady_seconds.items()},
        "seconds": round(time.monotonic() - story.began, 1),
        "ui": {"url": stack.airflow.url, "user": stack.airflow.user, "password": stack.airflow.password},
    }


def _steady(records: Sequence[BatchRecord], disturbed: set[int]) -> list[BatchRecord]:
    """Full batches without a fault. The first one, on a new JVM, is left out."""
    full = max((r.commit.counts.read for r in records if r.commit and r.commit.counts), default=0)
    return [
        r
        for r in records[1:]
        if r.batch.batch_id not in disturbed and r.commit and r.commit.counts and r.commit.counts.read == full
        if "merge" in _phases(r)
    ]


def print_report(report: JsonObject, path: Path, stack: Stack) -> None:
    compared = len(report["verdict"]["mismatches"])
    kills = ", ".join(f"{k['what']} in batch {k['batch_id']}" for k in report["kills"])
    rerun, quality = report["rerun"], report["quality"]
    print()
    for name, value in {
        "events": f"{report['events']:,}",
        "batches": f"{len(report['batches'])}, of {report['ranges']} offset ranges",
        "attempts": f"{report['attempts']} ({', '.join('/'.join(b['attempts']) for b in report['batches'])})",
        "killed": kills,
        "rerun": f"batch {rerun['batch_id']}: {rerun['outcome']}, version {rerun['table_version_before']} before and "
        f"{rerun['table_version_after']} after",
        "bad batch": f"{quality['planted']} planted bad records and {quality['far']} good ones set aside; "
        f"{quality['replayed']} replayed, {quality['discarded']} discarded, {quality['pending']} waiting",
        "rows": f"{report['rows']:,} of {report['rows_expected']:,}; {report['never_departed']:,} never departed",
        "mismatches": f"{report['mismatches']} in {compared} columns",
        "throughput": f"{report['events_per_second_steady'] or 0:,} events/s in undisturbed batches, "
        f"{report['events_per_second_with_airflow_and_faults']:,} with Airflow and the faults",
        "phases": ", ".join(f"{name} {s:.1f} s" for name, s in report["phase_seconds_steady"].items())
        + " per undisturbed batch",
        "verdict": _verdict(report),
        "report": path,
        "Airflow": f"{stack.airflow.url}/dags/lakemark__{report['pipeline']}  "
        f"login {stack.airflow.user} / {stack.airflow.password}",
    }.items():
        print(f"  {name:<11} {value}")
    print("\n`make down` ends the services; they stay up until then.")


def _verdict(report: JsonObject) -> str:
    if report["good"]:
        return "the table is the truth"
    return (
        "NOT SHOWN: a fault, the rerun or the bad batch was not as planned"
        if report["verdict"]["equal"]
        else "NOT EQUAL"
    )
