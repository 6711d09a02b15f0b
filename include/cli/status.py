"""`lakemark status | audit`: how far pipelines are, and whether everything adds up."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from include.cli.output import Commands, add_command_for_all, named_pipelines, report
from include.protocol.json_data import JsonObject
from include.settings import Settings


def add_status_commands(commands: Commands) -> None:
    """Adds `status` and `audit` to the command's subparsers."""
    status_ = add_command_for_all(commands, "status", status, "how far pipelines are")
    status_.add_argument("--batches", type=int, metavar="N", default=0, help="show the last N batches, too")
    audit_ = add_command_for_all(commands, "audit", audit, "prove that every batch was applied once, and adds up")
    audit_.add_argument("--deep", action="store_true", help="recompute the tables from Kafka and compare every row")


def status(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.coordinator import Coordinator
    from include.monitoring.status import batch_facts
    from include.monitoring.status import status as status_of

    found = []
    pipelines, good = named_pipelines(settings, options.pipeline)
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

    pipelines, good = named_pipelines(settings, options.pipeline)
    reports = [audit_of(settings, pipeline, options.deep) for pipeline in pipelines]
    lines = [
        line
        for report in reports
        for line in (
            f"{report.pipeline}: {report.batches} batches, {report.commits_verified} commits compared, "
            f"{report.records:,} records, {len(report.findings) or 'no'} findings",
            *([f"  {report.recomputed}"] if report.recomputed else []),
            *(f"  {table}" for table in report.tables if table.role != "target" or table.not_recomputed),
            *(f"  on record: {loss}" for loss in report.on_record),
            *(f"  {finding}" for finding in report.findings),
        )
    ]
    report(options, [report.to_json() for report in reports], lines)
    return 1 if not good or any(report.findings for report in reports) else 0


def _status_lines(facts: JsonObject) -> Iterable[str]:
    lag = f"unknown ({facts['kafka']})"
    if facts["lag_records"] is not None:
        lag = f"{facts['lag_records']:,} records"
        lag += f", the oldest {facts['lag_seconds']:,.0f} s old" if facts["lag_records"] else ""
    yield f"{facts['pipeline']}: committed through batch {facts['committed_through']}, lag {lag}"
    if facts["problem"]:
        yield f"  stopped: {facts['problem']}"
    if last := facts["last_commit"]:
        yield f"  last commit: version {last['table_version']} at {last['committed_at']}"
        yield "  " + ", ".join(f"{number:,} {name}" for name, number in facts["records"].items())
        if last["quality"]:
            yield f"  suite {last['quality']['suite']}: {last['quality']['outcome']}"
    if waiting := facts["quarantine"].get("pending"):
        yield f"  {waiting:,} records wait in the quarantine: `lakemark quarantine list {facts['pipeline']}`"
    if facts["mends"]:
        yield (
            f"  repair due: {', '.join(facts['mends'])} holds what no landed batch has left there; the next batch "
            "mends it, also without records"
        )
    if pending := facts["pending"]:
        yield f"  batch {pending['batch_id']} is planned and not committed, attempts: {pending['attempts']}"
    for batch in facts.get("last_batches", []):
        outcomes = ", ".join(a["outcome"] for a in batch["attempts"])
        ranges = " ".join(batch["ranges"])
        yield f"  batch {batch['batch_id']} -> version {batch['table_version']}: {ranges} ({outcomes})"
