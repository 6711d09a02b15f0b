"""`lakemark plan | run`: a pipeline's next batch, without Airflow."""

from __future__ import annotations

import argparse

from include.cli.output import Commands, add_command, named_pipeline, report, say
from include.cli.sinks import deliver_what_landed
from include.pipeline_file import LANDING
from include.protocol.batch import Batch
from include.protocol.json_data import JsonObject
from include.settings import Settings


def add_batch_commands(commands: Commands) -> None:
    """Adds `plan` and `run` to the command's subparsers."""
    plan_ = add_command(commands, "plan", plan, "record the next batch's offset ranges in the ledger")
    plan_.add_argument("--dry-run", action="store_true", help="only say what would be recorded")
    run_ = add_command(commands, "run", run, "plan, merge and settle one batch, without Airflow")
    how = run_.add_mutually_exclusive_group()
    how.add_argument("--until-caught-up", action="store_true", help="all batches, in one Spark session")
    how.add_argument("--from-archive", action="store_true", help="merge the whole archive once more, without Kafka")


def plan(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.coordinator import Coordinator
    from include.protocol.planning import Idle, NewBatch, PendingBatch

    coordinator = Coordinator(settings, named_pipeline(settings, options.pipeline))
    planned = coordinator.preview() if options.dry_run else coordinator.plan()
    match planned:
        case Idle():
            idle = "nothing new in Kafka"
            if coordinator.pipeline.merge_every is not None:
                landing = f"{coordinator.pipeline.name}{LANDING}"
                idle = f"too little waits in the archive to merge; `lakemark plan {landing}` plans what Kafka holds"
            report(options, {"plan": "idle"}, [idle])
        case PendingBatch(batch):
            report(
                options,
                {"plan": "pending", "batch": batch.to_json()},
                [f"{batch} is planned already and not committed:", *_what(batch)],
            )
        case NewBatch(batch, lag):
            word = "would be planned" if options.dry_run else "planned"
            report(
                options,
                {"plan": "new", "recorded": not options.dry_run, "batch": batch.to_json(), "lag_records": lag},
                [f"{batch} {word}; {lag:,} records are left after it:", *_what(batch)],
            )
    return 0


def _what(batch: Batch) -> list[str]:
    """What a batch reads, and what it mends."""
    mends = [f"  it mends {name}, which is not as the last batch left it" for name in batch.mends]
    return [*(f"  {r}" for r in batch.ranges), *mends]


def run(settings: Settings, options: argparse.Namespace) -> int:
    if options.from_archive:
        from include.cli.backfill import run_from_archive

        return run_from_archive(settings, options.pipeline, options.json)
    from include.control.coordinator import Coordinator
    from include.jobs.report import told
    from include.jobs.runner import run_job
    from include.protocol.planning import Idle

    pipeline = named_pipeline(settings, options.pipeline)

    def listen(fact: JsonObject) -> None:
        say(told(fact))

    if options.until_caught_up:
        results = run_job(settings, pipeline.name, None, "cli", listen=listen, log=say)
    else:
        results = []
        for half in pipeline.halves:
            coordinator = Coordinator(settings, half)
            planned = coordinator.plan(ignore_merge_every=not results)
            if isinstance(planned, Idle):
                continue
            [result] = run_job(settings, half.name, planned.batch.key, "cli", listen=listen, log=say)
            committed = coordinator.settle(planned.batch.key)
            counts = committed.counts and committed.counts.to_json()
            results.append({**result, "table_version": committed.table_version, "counts": counts})
    deliver_what_landed(settings, pipeline)
    lines = [f"{told({'result': result})}; version {result['table_version']}" for result in results]
    report(options, results, lines or ["nothing new in Kafka"])
    return 0
