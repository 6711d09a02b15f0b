"""The results of suites, kept as a Delta table: one row per rule of every judgement, written without a JVM.

A judgement belongs to an attempt (`attempt_id`), whether that landed or not; the target's commit says which attempt
landed. So rows are only added, until maintenance removes the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from include.lake.appended import append
from include.lake.delta_tables import Row, delete_rows, open_table, query
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.quality.verdict import Verdict

EVIDENCE_SCHEMA = pa.schema(
    [
        pa.field("judged_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("pipeline", pa.string(), nullable=False),
        pa.field("generation", pa.int64()),  # of a batch; null: the table itself was judged
        pa.field("batch_id", pa.int64()),
        pa.field("table_version", pa.int64()),  # of a table that was judged
        pa.field("attempt_id", pa.string(), nullable=False),
        pa.field("suite", pa.string(), nullable=False),
        pa.field("suite_fingerprint", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),  # of the whole suite
        pa.field("rule", pa.string(), nullable=False),
        pa.field("expectation", pa.string(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("success", pa.bool_(), nullable=False),
        pa.field("element_count", pa.int64()),
        pa.field("unexpected_count", pa.int64()),
        pa.field("unexpected_percent", pa.float64()),
        pa.field("observed", pa.string()),  # JSON
        pa.field("sample", pa.string()),  # JSON: values of some rows that break the rule
        pa.field("config", pa.string(), nullable=False),  # JSON: the expectation, as written
        pa.field("result", pa.string(), nullable=False),  # JSON: as Great Expectations has it
    ]
)


@dataclass(frozen=True)
class Subject:
    """What was judged: a batch, or the table at a version."""

    pipeline: str
    attempt_id: str
    generation: int | None = None
    batch_id: int | None = None
    table_version: int | None = None


def record(uri: LakeUri, subject: Subject, verdict: Verdict) -> None:
    """Adds a judgement. Raises RetryableError: the file system refuses it."""
    rows = pa.Table.from_pylist(_rows(subject, verdict, datetime.now(UTC)), EVIDENCE_SCHEMA)
    append(uri, rows, "the results of a quality suite")


def judgements(uri: LakeUri) -> list[Row]:
    """All rows, oldest first; JSON columns as data.

    Raises:
        TableDamaged: see `open_table`.
    """
    if not files_at(uri).exists(uri) or (table := open_table(uri)) is None:
        return []
    found = query(table, "select * from t order by judged_at, attempt_id, rule")
    json_columns = ("observed", "sample", "config", "result")
    return [{**row, **{name: json.loads(row[name] or "null") for name in json_columns}} for row in found]


def forget(uri: LakeUri, before: datetime) -> int:
    """Removes judgements from before that moment (UTC); returns how many rows. If a batch commits first, the next call
    removes them."""
    table = open_table(uri)
    return 0 if table is None else delete_rows(table, f"judged_at < '{before:%Y-%m-%dT%H:%M:%SZ}'")


def _rows(subject: Subject, verdict: Verdict, now: datetime) -> Iterable[Row]:
    return [
        {
            "judged_at": now,
            "pipeline": subject.pipeline,
            "generation": subject.generation,
            "batch_id": subject.batch_id,
            "table_version": subject.table_version,
            "attempt_id": subject.attempt_id,
            "suite": verdict.suite.name,
            "suite_fingerprint": verdict.suite.fingerprint,
            "outcome": verdict.outcome,
            "rule": found.rule.name,
            "expectation": found.rule.type,
            "policy": found.policy,
            "success": found.success,
            "element_count": found.result.get("element_count"),
            "unexpected_count": found.result.get("unexpected_count"),
            "unexpected_percent": found.result.get("unexpected_percent"),
            "observed": json.dumps(found.result.get("observed_value"), default=str),
            "sample": json.dumps(found.result.get("partial_unexpected_list", []), default=str),
            "config": json.dumps(dict(found.rule.config)),
            "result": json.dumps(dict(found.result), default=str),
        }
        for found in verdict.results
    ]
