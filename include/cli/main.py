"""The command `lakemark`. Exit codes: 0 good, 1 a finding or a failure, 2 wrong usage."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from include.cli.output import named_pipeline, report, say
from include.pipeline_file import Pipeline, find_pipeline, pipeline_files
from include.protocol.errors import LakemarkError, PipelineFileError, TerminalError
from include.settings import Settings

Command = Callable[[Settings, argparse.Namespace], int]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    settings = Settings.from_environment()
    try:
        return options.command(settings, options)
    except LakemarkError as error:
        if getattr(options, "json", False):
            print(json.dumps(error.facts()))
        else:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from include.cli.backfill import add_backfill_command
    from include.cli.ledger import add_ledger_commands
    from include.cli.profile import add_profile_command
    from include.cli.quality import add_quality_command
    from include.cli.quarantine import add_quarantine_command

    parser = argparse.ArgumentParser(prog="lakemark", description="Exactly-once micro-batches from Kafka to Delta.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str, pipeline: str | None, json_too: bool) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        if pipeline is not None:
            sub.add_argument("pipeline", nargs=pipeline, help="name of a file in include/pipelines, without .yaml")
        if json_too:
            sub.add_argument("--json", action="store_true", help="print data instead of text")
        return sub

    up_ = add("up", up, "start Kafka, Spark and Airflow on this machine", None, True)
    up_.add_argument("--only", nargs="+", choices=("kafka", "spark", "airflow"), help="not all of it")
    add("down", down, "end what `up` or `demo` started, and nothing else", None, False)
    add("demo", demo, "a year of flights, end to end, with a killed job and a killed Spark server", None, False)
    add("validate", validate, "check pipeline files (all, unless named)", "*", True)
    plan_ = add("plan", plan, "record the next batch's offset ranges in the ledger", None, True)
    plan_.add_argument("pipeline", help="name of a pipeline")
    plan_.add_argument("--dry-run", action="store_true", help="only say what would be recorded")
    run_ = add("run", run, "plan, merge and settle one batch, without Airflow", None, True)
    run_.add_argument("pipeline", help="name of a pipeline")
    how = run_.add_mutually_exclusive_group()
    how.add_argument("--until-caught-up", action="store_true", help="all there is, in one Spark session")
    how.add_argument("--from-archive", action="store_true", help="all that the archive holds once more, without Kafka")
    status_ = add("status", status, "how far pipelines are", "*", True)
    status_.add_argument("--batches", type=int, metavar="N", default=0, help="the last N batches too")
    audit_ = add("audit", audit, "prove that every batch was applied once, and adds up", "*", True)
    audit_.add_argument("--deep", action="store_true", help="recompute the table from Kafka and compare every row")
    add("maintain", maintain, "keep a pipeline's tables quick to read and small on disk", "*", True)
    query_ = add("query", query, "ask the table as it will be once all that has landed is merged", None, True)
    query_.add_argument("pipeline", help="name of a pipeline with `merge_every`")
    query_.add_argument("sql", nargs="?", default="SELECT * FROM fresh LIMIT 20", help="of the view `fresh`")
    add_ledger_commands(commands)
    add_backfill_command(commands)
    add_quality_command(commands)
    add_quarantine_command(commands)
    add_profile_command(commands)
    explain_ = add("explain", explain, "what a pipeline does, and what it guarantees", None, True)
    explain_.add_argument("pipeline", nargs="?", help="name of a pipeline")
    explain_.add_argument("--schema", action="store_true", help="the JSON Schema of pipeline files, for editors")
    return parser


def up(settings: Settings, options: argparse.Namespace) -> int:
    from include.installation.stack import PARTS, Stack

    parts = tuple(part for part in PARTS if part in (options.only or PARTS))
    stack = Stack.of(settings)
    stack.up(say, parts)
    facts = stack.addresses(parts)
    if "airflow" in parts:
        facts |= {"login": f"{stack.airflow.user} / {stack.airflow.password}"}
    report(options, facts, (f"{name}: {value}" for name, value in facts.items()))
    return 0


def down(settings: Settings, options: argparse.Namespace) -> int:
    from include.installation.stack import Stack

    print("ended" if Stack.of(settings).down() else "nothing ran")
    return 0


def demo(settings: Settings, options: argparse.Namespace) -> int:
    from include.demo.scenario import run_demo

    return run_demo(settings)


def validate(settings: Settings, options: argparse.Namespace) -> int:
    from include.lake.delta_tables import verify_alone
    from include.pipeline_file.tables import Tables
    from include.pipeline_file.transform_file import verify_transform

    found: list[dict[str, Any]] = []
    named = [settings.pipelines / f"{name}.yaml" for name in options.pipeline]
    for path in named or pipeline_files(settings.pipelines):
        try:
            pipeline = find_pipeline(path.stem, settings.pipelines, settings.environment)
            for path_of_table in Tables.of(settings, pipeline).of_users:
                verify_alone(path_of_table)
            _validate_suites(settings, pipeline)
            verify_transform(settings, pipeline)
            found.append({"file": str(path), "valid": True, "warnings": list(pipeline.warnings)})
        except TerminalError as error:
            found.append({"file": str(path), "valid": False, **error.facts()})
    lines = (
        "\n  warning: ".join((f"{f['file']}: valid", *f["warnings"]))
        if f["valid"]
        else f"{f['where']}: expected {f['expected']}; found {f['found']}"
        for f in found
    )
    report(options, found, lines)
    return 0 if all(f["valid"] for f in found) else 1


def _validate_suites(settings: Settings, pipeline: Pipeline) -> None:
    """Raises SuiteError, also for what only Great Expectations itself finds wrong."""
    from include.quality.gx_context import verify_with_gx
    from include.quality.judge import judge_of, suite_path, table_judge

    judges = [judge_of(settings, pipeline), table_judge(settings, pipeline) if pipeline.quality.table else None]
    for judge in filter(None, judges):
        verify_with_gx(suite_path(settings, judge.suite.name), judge.suite)


def plan(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.coordinator import Coordinator
    from include.protocol.planning import Idle, NewBatch, PendingBatch

    coordinator = Coordinator(settings, named_pipeline(settings, options.pipeline))
    planned = coordinator.preview() if options.dry_run else coordinator.plan()
    match planned:
        case Idle():
            report(options, {"plan": "idle"}, ["nothing new in Kafka"])
        case PendingBatch(batch):
            report(
                options,
                {"plan": "pending", "batch": batch.to_json()},
                [f"{batch} was planned before and is not committed:", *(f"  {r}" for r in batch.ranges)],
            )
        case NewBatch(batch, lag):
            word = "would be planned" if options.dry_run else "planned"
            report(
                options,
                {"plan": "new", "recorded": not options.dry_run, "batch": batch.to_json(), "lag_records": lag},
                [f"{batch} {word}; {lag:,} records are left after it:", *(f"  {r}" for r in batch.ranges)],
            )
    return 0


def run(settings: Settings, options: argparse.Namespace) -> int:
    if options.from_archive:
        from include.cli.backfill import run_from_archive

        return run_from_archive(settings, options.pipeline, options.json)
    from include.control.coordinator import Coordinator
    from include.jobs.report import told
    from include.jobs.runner import run_job
    from include.protocol.planning import Idle

    pipeline = named_pipeline(settings, options.pipeline)

    def listen(fact: dict[str, Any]) -> None:
        say(told(fact))

    if options.until_caught_up:
        results = run_job(settings, pipeline.name, None, "cli", listen, say)
    else:
        results = []
        for half in pipeline.halves:
            coordinator = Coordinator(settings, half)
            planned = coordinator.plan(ignore_merge_every=not results)
            if isinstance(planned, Idle):
                continue
            [result] = run_job(settings, half.name, planned.batch.key, "cli", listen, say)
            committed = coordinator.settle(planned.batch.key)
            counts = committed.counts and committed.counts.to_json()
            results.append({**result, "table_version": committed.table_version, "counts": counts})
    lines = [f"{told({'result': result})}; version {result['table_version']}" for result in results]
    report(options, results, lines or ["nothing new in Kafka"])
    return 0


def status(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.coordinator import Coordinator
    from include.monitoring.status import batch_facts
    from include.monitoring.status import status as status_of

    found = []
    pipelines, good = _pipelines(settings, options.pipeline)
    for pipeline in pipelines:
        facts = status_of(settings, pipeline)
        if options.batches:
            batches = Coordinator(settings, pipeline).ledger.state().batches[-options.batches :]
            facts["last_batches"] = [batch_facts(record) for record in batches]
        found.append(facts)
    report(options, found, (line for facts in found for line in _status_lines(facts)))
    return 0 if good else 1


def audit(settings: Settings, options: argparse.Namespace) -> int:
    from include.audit.auditor import audit as audit_of

    pipelines, good = _pipelines(settings, options.pipeline)
    reports = [audit_of(settings, pipeline, options.deep) for pipeline in pipelines]
    lines = [
        line
        for report in reports
        for line in (
            f"{report.pipeline}: {report.batches} batches, {report.commits_verified} commits compared, "
            f"{report.records:,} records, {len(report.findings) or 'no'} findings",
            *([f"  {report.recomputed}"] if report.recomputed else []),
            *(f"  on record: {loss}" for loss in report.on_record),
            *(f"  {finding}" for finding in report.findings),
        )
    ]
    report(options, [report.to_json() for report in reports], lines)
    return 1 if not good or any(report.findings for report in reports) else 0


def maintain(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.report import maintenance_lines, told
    from include.jobs.runner import run_maintenance

    def listen(fact: dict[str, Any]) -> None:
        if "result" not in fact:
            say(told(fact))

    pipelines, good = _pipelines(settings, options.pipeline)
    won = [run_maintenance(settings, pipeline.name, listen, say) for pipeline in pipelines]
    report(options, won, (line for of_one in won for line in maintenance_lines(of_one)))
    return 0 if good else 1


def query(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.runner import run_query

    rows = run_query(settings, named_pipeline(settings, options.pipeline).name, options.sql, say)
    report(options, rows, (json.dumps(row) for row in rows))
    return 0


def explain(settings: Settings, options: argparse.Namespace) -> int:
    from include.pipeline_file.explain import explanation, markdown

    if options.schema:
        print(json.dumps(Pipeline.model_json_schema(), indent=2))
        return 0
    if options.pipeline is None:
        print("lakemark explain: name a pipeline, or ask for --schema", file=sys.stderr)
        return 2
    pipeline = named_pipeline(settings, options.pipeline)
    report(options, explanation(pipeline), [markdown(pipeline)])
    return 0


def _pipelines(settings: Settings, names: list[str]) -> tuple[list[Pipeline], bool]:
    """The pipelines of that name, or all, each after its landing, if it has one; and whether every file was valid. A
    broken file hides no other pipeline."""
    found, good = [], True
    for name in names or [path.stem for path in pipeline_files(settings.pipelines)]:
        try:
            found += named_pipeline(settings, name).halves
        except PipelineFileError as error:
            good = False
            say(f"{type(error).__name__}: {error}")
    return found, good


def _status_lines(facts: dict[str, Any]) -> Iterable[str]:
    lag = f"unknown ({facts['kafka']})"
    if facts["lag_records"] is not None:
        lag = f"{facts['lag_records']:,} records"
        lag += f", the oldest {facts['lag_seconds']:,.0f} s old" if facts["lag_records"] else ""
    yield f"{facts['pipeline']}: committed through batch {facts['committed_through']}, lag {lag}"
    if facts["problem"]:
        yield f"  stands still: {facts['problem']}"
    if last := facts["last_commit"]:
        yield f"  last commit: version {last['table_version']} at {last['committed_at']}"
        yield "  " + ", ".join(f"{number:,} {name}" for name, number in facts["records"].items())
        if last["quality"]:
            yield f"  suite {last['quality']['suite']}: {last['quality']['outcome']}"
    if waiting := facts["quarantine"].get("pending"):
        yield f"  {waiting:,} records wait in the quarantine: `lakemark quarantine list {facts['pipeline']}`"
    if pending := facts["pending"]:
        yield f"  batch {pending['batch_id']} is planned and not committed, attempts: {pending['attempts']}"
    for batch in facts.get("last_batches", []):
        outcomes = ", ".join(a["outcome"] for a in batch["attempts"])
        ranges = " ".join(batch["ranges"])
        yield f"  batch {batch['batch_id']} -> version {batch['table_version']}: {ranges} ({outcomes})"
