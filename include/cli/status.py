"""`lakemark status | audit`: how far pipelines are, and whether everything adds up."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from include.cli.output import Commands, add_command_for_all, named_pipelines, report, who
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.settings import Settings

if TYPE_CHECKING:
    from include.audit.report import AuditReport


def add_status_commands(commands: Commands) -> None:
    """Adds `status` and `audit` to the command's subparsers."""
    status_ = add_command_for_all(commands, "status", status, "how far pipelines are")
    status_.add_argument("--batches", type=int, metavar="N", default=0, help="show the last N batches, too")
    audit_ = add_command_for_all(commands, "audit", audit, "prove that every batch was applied once, and adds up")
    audit_.add_argument("--deep", action="store_true", help="recompute the tables from Kafka and compare every row")
    audit_.add_argument("--sinks", action="store_true", help="read what the sinks hold and compare every row")


def status(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.coordinator import Coordinator
    from include.monitoring.status import batch_facts
    from include.monitoring.status import status as status_of

    found = []
    away: dict[Hashable, LakemarkError] = {}
    pipelines, good = named_pipelines(settings, options.pipeline)
    for pipeline in pipelines:
        facts = status_of(settings, pipeline, away)
        if options.batches and facts["committed_through"] is not None:
            batches = Coordinator(settings, pipeline).ledger.state().batches[-options.batches :]
            facts["last_batches"] = [batch_facts(record) for record in batches]
        found.append(facts)
    report(options, found, (line for facts in found for line in _status_lines(facts)))
    return 1 if not good or any(facts["problem"] for facts in found) else 0


def audit(settings: Settings, options: argparse.Namespace) -> int:
    from include.audit.auditor import audit as audit_of
    from include.audit.proofs import record

    pipelines, good = named_pipelines(settings, options.pipeline)
    told: list[tuple[AuditReport, str | None]] = []
    for pipeline in pipelines:
        found = audit_of(settings, pipeline, options.deep, options.sinks)
        told.append((found, record(settings, pipeline, found, who())))
    facts = [{**found.to_json(), "not_recorded": why} for found, why in told]
    report(options, facts, (line for found, why in told for line in found.lines(why)))
    return 1 if not good or any(found.findings for found, _ in told) else 0


def _progress(facts: JsonObject) -> str:
    through = facts["committed_through"]
    if through is None:
        return "its ledger cannot be read"
    lag = f"unknown ({facts['kafka']})"
    if facts["lag_records"] is not None:
        lag = f"{facts['lag_records']:,} records"
        lag += f", the oldest {facts['lag_seconds']:,.0f} s old" if facts["lag_records"] else ""
    of = f" of generation {facts['generation']}" if facts["generation"] > 1 else ""
    progress = f"nothing{of} is committed yet" if through < 0 else f"committed through batch {through}{of}"
    return f"{progress}, lag {lag}"


def _status_lines(facts: JsonObject) -> Iterable[str]:
    yield f"{facts['pipeline']}: {_progress(facts)}"
    if facts["problem"]:
        yield f"  stopped: {facts['problem']}"
    if facts["running"]:
        yield f"  running: {facts['running']}"
    if last := facts["last_commit"]:
        yield f"  last commit: version {last['table_version']} at {last['committed_at']}"
        sums = ", ".join(f"{number:,} {name}" for name, number in facts["records"].items())
        yield f"  {sums}, in {facts['batches']:,} batches of generation {facts['generation']}"
        if last["quality"]:
            yield f"  suite {last['quality']['suite']}: {last['quality']['outcome']}"
    if waiting := facts["quarantine"].get("pending"):
        yield f"  {waiting:,} records wait in the quarantine: `lakemark quarantine list {facts['pipeline']}`"
    if facts["mends"]:
        yield (
            f"  repair due: {', '.join(facts['mends'])} holds what no landed batch has left there; the next batch "
            "mends it, also without records"
        )
    if overdue := facts["maintenance"]["overdue"]:
        yield f"  {overdue}"
    yield from (f"  sink {sink['name']}: {sink['in_words']}" for sink in facts["sinks"])
    yield from _proof_lines(facts)
    if pending := facts["pending"]:
        yield f"  batch {pending['batch_id']} is planned and not committed, attempts: {pending['attempts']}"
    for batch in facts.get("last_batches", []):
        outcomes = ", ".join(a["outcome"] for a in batch["attempts"])
        ranges = " ".join(batch["ranges"])
        yield f"  batch {batch['batch_id']} -> version {batch['table_version']}: {ranges} ({outcomes})"


def _proof_lines(facts: JsonObject) -> Iterable[str]:
    """What audits have proven. Tables of which the same is to be said share a line."""
    tables: dict[str, list[str]] = {}
    for name, proof in facts["proofs"].items():
        todo = f": `lakemark audit {facts['pipeline']}`" if proof["outcome"] == "never proven" else ""
        tables.setdefault(proof["in_words"] + todo, []).append(name)
    return (f"  {', '.join(names)}: {text}" for text, names in tables.items())
