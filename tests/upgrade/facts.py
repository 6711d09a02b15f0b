"""What a version of Lakemark says about a lake, as JSON data: `make_fixtures` writes it down, `test_upgrade` compares.

Names of keys are spelled out here, so that they stay as they are when a class or a field is renamed. Sentences for
people are left out: a later version may word them better.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import date, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

from include.cli.command import main
from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.ledger_reads import APP_ID, SNAPSHOT_ID
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.monitoring.ledger_reader import LedgerReader
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline, load_pipelines
from include.pipeline_file.tables import Tables, table_uri
from include.protocol.batch import app_id
from include.protocol.ledger_rows import generation_to_json
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import purged_from
from include.protocol.ranges import offsets_to_json
from include.settings import Settings
from tests.support.world import read_table

BESIDE = ("lake://silver/prices",)  # tables that no pipeline writes


def pipelines_of(settings: Settings) -> list[Pipeline]:
    pipelines, broken = load_pipelines(settings.pipelines, settings.environment)
    assert not broken, broken
    return pipelines


def halves_of(settings: Settings) -> list[Pipeline]:
    return [half for pipeline in pipelines_of(settings) for half in pipeline.halves]


def files(settings: Settings) -> dict[str, Any]:
    """Pipeline files, with all defaults."""
    dumped = {p.name: p.for_people.model_dump(mode="json", by_alias=True) for p in pipelines_of(settings)}
    return as_json(dumped)


def ledgers(settings: Settings) -> dict[str, Any]:
    return as_json({half.name: ledger_facts(settings, half) for half in halves_of(settings)})


def tables(settings: Settings) -> dict[str, Any]:
    """All tables but ledgers, by their names: rows, and what their logs say."""
    found = {name: table_facts(path, half) for name, path, half in all_tables(settings)}
    return as_json({name: facts for name, facts in found.items() if facts is not None})


def all_tables(settings: Settings) -> Iterator[tuple[str, LakeUri, Pipeline]]:
    """Name, path, and whose it is."""
    halves = halves_of(settings)
    seen = {table: table_uri(settings, table) for table in BESIDE}
    yield from ((name, path, halves[0]) for name, path in seen.items())
    for half in halves:
        own = Tables.of(settings, half)
        backfills = [record.backfill for record in Ledger(own.ledger).state().backfills.values()]
        replays = [path for backfill in backfills if (path := own.records_of(backfill)) is not None]
        written = (participant.uri(settings) for participant in Catalog.of(half).participants)
        for path in (*written, own.quarantine, own.resolutions, own.quality, *replays):
            name = str(path).replace(str(settings.lake), "lake:/")
            if name not in seen:
                seen[name] = path
                yield name, path, half


def ledger_facts(settings: Settings, pipeline: Pipeline) -> dict[str, Any]:
    """What all events add up to, those from the newest kept state on, and as the page sums them up."""
    ledger = Ledger(Tables.of(settings, pipeline).ledger)
    digest = LedgerReader(ledger.uri).digest()
    table = open_table(ledger.uri)
    assert table is not None, ledger.uri
    state, recent = state_facts(ledger.state()), state_facts(ledger.recent())
    records: Counter[str] = Counter()
    for sums in digest.by_generation.values():
        records.update(sums.records)
    return {
        "last": table.transaction_version(APP_ID),
        "kept": table.transaction_version(SNAPSHOT_ID),
        "state": state,
        "recent": recent if recent != state else "the same",
        "digest": {
            "sequence": digest.sequence,
            "generation": digest.generation,
            "pending": digest.pending and digest.pending.batch.to_json(),
            # Of all generations together, as a Lakemark from before summed them up.
            "commits": sum(sums.commits for sums in digest.by_generation.values()),
            "records": dict(records),
            "next_offsets": offsets_to_json(digest.next_offsets),
            "committed_offsets": offsets_to_json(digest.committed_offsets),
            "open_backfills": digest.open_backfills,
        },
    }


def state_facts(state: LedgerState) -> dict[str, Any]:
    return {
        "generation": state.generation,
        "is_whole": state.is_whole,
        "first_batch_id": state.first_batch_id,
        "next_batch_id": state.next_batch_id,
        "committed_through": state.committed_through,
        "pending": state.pending and state.pending.batch.batch_id,
        "next_offsets": offsets_to_json(state.next_offsets),
        "committed_offsets": offsets_to_json(state.committed_offsets),
        "topic_ids": dict(state.topic_ids),
        "cluster_id": state.cluster_id,
        "target_version": state.target_version,
        "batches": [
            {
                "batch": record.batch.to_json(),
                "attempts": [
                    {"id": a.attempt_id, "host": a.host, "by": a.started_by, "outcome": a.outcome, "problem": a.problem}
                    | {"seconds": dict(a.phase_seconds)}
                    for a in record.attempts
                ],
                "commit": record.commit
                and {
                    "fingerprint": record.commit.fingerprint,
                    "table_version": record.commit.table_version,
                    "table_id": record.commit.table_id,
                    "committed_at": record.commit.committed_at,
                    "attempt_id": record.commit.attempt_id,
                    "counts": record.commit.counts and record.commit.counts.to_json(),
                    "quarantine_version": record.commit.quarantine_version,
                    "settle_seconds": record.commit.settle_seconds,
                    "attempt_seconds": record.commit.attempt_seconds,
                    "quality": record.commit.quality,
                },
            }
            for record in state.batches
        ],
        "generations": [{"generation": g.generation, **generation_to_json(g)} for g in state.generations],
        "backfills": [
            {"number": number, "outcome": record.outcome, "backfill": record.backfill.to_json()}
            for number, record in sorted(state.backfills.items())
        ],
        "next_backfill": state.next_backfill if state.is_whole else None,
    }


def table_facts(path: LakeUri, pipeline: Pipeline) -> dict[str, Any] | None:
    """Rows, markers and commits of a table; None if there is none."""
    log, table = TableLog.open(path), open_table(path)
    if log is None or table is None:
        return None
    rows = [json.dumps(as_json(row), sort_keys=True) for row in read_table(path)]
    return {
        "version": log.version,
        "table_id": log.table_id,
        "markers": {g: marker for g in range(1, 5) if (marker := log.marker(pipeline.name, g)) is not None},
        "transactions": {g: table.transaction_version(app_id(pipeline.name, g)) for g in range(1, 5)},
        "purged": [
            {"topic": mark.topic, "topic_id": mark.topic_id, "partition": mark.partition, "offset": mark.offset}
            for mark in purged_from(table.metadata().configuration)
        ],
        "log": [entry_facts(entry) for entry in log.entries(pipeline.name)],
        "rows": [json.loads(row) for row in sorted(rows)],
    }


def entry_facts(entry: LogEntry) -> dict[str, Any]:
    landed = entry.landed
    found: dict[str, Any] = {
        "version": entry.version,
        "at": entry.at,
        "operation": entry.operation,
        "own": entry.own,
        "foreign": entry.is_foreign,
    }
    if entry.begun is not None:
        found["begun"] = {"generation": entry.begun.generation, **generation_to_json(entry.begun)}
    if landed is not None:
        about = landed.metadata
        found["landed"] = {
            "version": landed.table_version,
            "at": landed.committed_at,
            "batch": about.batch.to_json(),
            "fingerprint": about.fingerprint,
            "role": about.role,
            "counts": about.counts.to_json(),
            "merge": [
                landed.merge.source_rows,
                landed.merge.inserted,
                landed.merge.updated,
                landed.merge.deleted,
            ],
            "next_offsets": offsets_to_json(about.next_offsets),
            "attempt_id": about.attempt_id,
            "code_version": about.code_version,
            "quality": about.quality,
            "set_aside": about.set_aside,
            "of_history": about.of_history,
            "truncated": about.truncated,
        }
    return found


def commands(settings: Settings) -> dict[str, Any]:
    """What commands say, by command."""
    names = [pipeline.name for pipeline in pipelines_of(settings)]
    found: dict[str, Any] = {
        "status": status(),
        "explain": {name: _of_explanation(command("explain", name)) for name in names},
        "ledger show": {half.name: command("ledger", "show", half.name) for half in halves_of(settings)},
        # After the ledger, which keeps what it has seen.
        "audit": {report["pipeline"]: _of_audit(report) for report in command("audit")},
    }
    for words in (("quarantine", "list"), ("quarantine", "show"), ("backfill", "--list"), ("quality", "show")):
        found[" ".join(words)] = {name: command(*words, name) for name in names}
    return found


SECTIONS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "files": files,
    "ledgers": ledgers,
    "tables": tables,
    "commands": commands,
}


def command(*arguments: str, code: int | None = 0) -> Any:
    """What the command says as data; it has to exit with that code. None: with any."""
    with redirect_stdout(StringIO()) as said:
        ended = main([*arguments, "--json"])
    assert code in (ended, None), (arguments, said.getvalue())
    return json.loads(said.getvalue())


def status() -> dict[str, Any]:
    """By pipeline, without the age of the oldest record. A version after 0.1.0 exits with 1 if one stands still."""
    told = {facts["pipeline"]: facts for facts in command("status", "--batches", "100", code=None)}
    left_out = ("lag_seconds", "kafka", "problem")
    return {
        name: {key: value for key, value in facts.items() if key not in left_out}
        | {"has_problem": bool(facts["problem"] or facts.get("running"))}  # 0.1.0 did not tell the two apart
        for name, facts in told.items()
    }


def _of_audit(report: dict[str, Any]) -> dict[str, Any]:
    return {**report, "on_record": len(report["on_record"])}


def _of_explanation(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "pipeline": facts["pipeline"],
        "steps": list(facts["steps"]),
        "levels": [part["level"] for part in facts["parts"]],
        "guarantee": facts["guarantee"],
        "rows": facts["rows"],
    }


def as_json(data: Any) -> Any:
    """The same as it comes back from a JSON file."""
    return json.loads(json.dumps(data, default=_plain))


def _plain(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
    raise TypeError(f"no JSON for {value!r}")
