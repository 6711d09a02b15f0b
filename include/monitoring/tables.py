"""What a pipeline's tables hold, for the page: the newest versions of the target, the quarantine by reason; and what is
proven of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.lake.delta_tables import Row, open_table, query
from include.lake.ledger import Ledger
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.monitoring.proofs import proof_facts
from include.participants.catalog import Catalog
from include.participants.heads import mends_of
from include.participants.settled_records import settled_records
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.settings import Settings

_TEXT_MAX = 2000  # characters of a sample that are shown
_BY_REASON = "select reason, max(timestamp) as newest from t where {which} group by reason"
_NEWEST = (
    "select * from (select *, row_number() over (partition by reason order by generation desc, batch_id desc, "
    '"offset" desc) as place from t where {which}) where place <= {samples}'
)


def newest_versions(settings: Settings, pipeline: Pipeline, limit: int) -> list[JsonObject]:
    """Commits of the target, newest first: version, at, operation, by (what wrote it, in words), foreign, rows.

    Raises:
        TableDamaged: see `open_table`.
    """
    log = TableLog.open(Tables.of(settings, pipeline).target)
    return [_version(entry) for entry in log.newest_entries(pipeline.name, limit)] if log else []


def proofs_and_repairs(settings: Settings, pipeline: Pipeline) -> JsonObject:
    """What audits have proven of every table that a batch writes (`proofs`, by table: see `proof_facts`), which tables
    the next batch mends (`mends`), and why that is not known (`problem`, null if it is).

    Raises:
        TableDamaged: the ledger's table, see `open_table`. LedgerConflict: see there.
    """
    state = Ledger(Tables.of(settings, pipeline).ledger).recent()
    proofs = proof_facts(Catalog.of(pipeline).names, state.proofs, state.generation, datetime.now(UTC))
    facts: JsonObject = {"proofs": proofs}
    try:
        return {**facts, "mends": mends_of(settings, pipeline, state), "problem": None}
    except LakemarkError as error:
        return {**facts, "mends": [], "problem": str(error)}


def discards(settings: Settings, pipeline: Pipeline, limit: int) -> list[JsonObject]:
    """The newest times at which a person discarded records: at (ISO 8601), records, reason, resolved_by.

    Raises:
        TableDamaged: see `open_table`.
    """
    table = open_table(Tables.of(settings, pipeline).resolutions)
    if table is None:
        return []
    found = query(
        table,
        "select resolved_at, count(*) as records, reason, resolved_by from t where resolution = 'discarded' "
        f"group by resolved_at, reason, resolved_by order by resolved_at desc limit {int(limit)}",
    )
    return [{**row, "at": row.pop("resolved_at").isoformat()} for row in found]


def quality_over_time(settings: Settings, pipeline: Pipeline, limit: int, with_values: bool) -> JsonObject:
    """The results of suites for the newest batches, oldest first: `judgements` (at, generation and batch_id, or
    table_version where the table was judged, outcome, broken) and the last one's `rules` (rule, policy, success,
    element_count, unexpected_count, observed).

    Args:
        with_values: whether `observed` is told, which may be the value of a record; null otherwise.

    Raises:
        TableDamaged: see `open_table`.
    """
    table = open_table(Tables.of(settings, pipeline).quality)
    if table is None:
        return {"suite": pipeline.quality.suite, "judgements": [], "rules": []}
    newest = query(
        table,
        "select attempt_id, max(judged_at) as at, max(generation) as generation, max(batch_id) as batch_id, "
        "max(table_version) as table_version, "
        "max(outcome) as outcome, sum(case when success then 0 else 1 end) as broken, max(suite) as suite "
        f"from t group by attempt_id order by at desc limit {int(limit)}",
    )
    rules = query(
        table,
        "select rule, policy, success, element_count, unexpected_count, observed from t "
        f"where attempt_id = '{newest[0]['attempt_id']}'",
    )
    return {
        "suite": newest[0]["suite"],
        "judgements": [{**row, "at": row["at"].isoformat()} for row in reversed(newest)],
        "rules": [{**row, "observed": json.loads(row["observed"] or "null") if with_values else None} for row in rules],
    }


def quarantine_by_reason(settings: Settings, pipeline: Pipeline, samples: int) -> list[JsonObject]:
    """What was quarantined, each record once, by its newest reason: reason, records, newest (ISO 8601, UTC), pending,
    replayed, discarded, applied (as `Quarantine.summary`), samples (topic, partition, offset, at, generation, batch_id,
    key, value, as text), most records first.

    Raises:
        TableDamaged: see `open_table`.
    """
    log = TableLog.open(Tables.of(settings, pipeline).quarantine)
    if log is None:
        return []
    quarantine = Quarantine.of(Coordinator(settings, pipeline), with_bytes=False)
    became = {row.pop("reason"): row for row in quarantine.summary()}
    parts = settled_records(log, pipeline.name, quarantine.state)
    rows = [row for table, which in parts for row in query(table, _NEWEST.format(which=which, samples=int(samples)))]
    rows.sort(key=lambda row: (row["generation"], row["batch_id"], row["offset"]), reverse=True)
    by_reason: dict[str, list[Row]] = {}
    for table, which in parts:
        for row in query(table, _BY_REASON.format(which=which)):
            by_reason.setdefault(row["reason"], []).append(row)
    found = [
        {
            "reason": reason,
            "records": sum(states.values()),
            "newest": max(
                (row["newest"].isoformat() for row in by_reason.get(reason, ()) if row["newest"]), default=None
            ),
            **states,
            "samples": [_sample(row) for row in rows if row["reason"] == reason][:samples],
        }
        for reason, states in became.items()
    ]
    return sorted(found, key=lambda one: -one["records"])


def _version(entry: LogEntry) -> JsonObject:
    if entry.landed is not None:
        key = entry.landed.metadata.batch.key
        by = f"batch {key.batch_id}" if key.generation > 0 else f"backfill {-key.generation} chunk {key.batch_id}"
        by += f" (generation {key.generation})" if key.generation > 1 else ""
    elif entry.begun is not None:
        by = f"the fence before generation {entry.begun.generation}"
    else:
        by = entry.engine if entry.is_foreign else "Lakemark" if entry.own else ""
    rows = entry.landed.merge.changed if entry.landed else None
    facts = {"version": entry.version, "at": entry.at, "operation": entry.operation}
    return facts | {"by": by, "foreign": entry.is_foreign, "rows": rows}


def _sample(row: Row) -> JsonObject:
    at = row["timestamp"]
    place = {name: row[name] for name in ("topic", "partition", "offset", "generation", "batch_id")}
    return place | {"at": at.isoformat() if at else None, "key": _text(row["key"]), "value": _text(row["value"])}


def _text(value: bytes | None) -> str | None:
    """Bytes as text for people; what is not UTF-8 shows as the replacement character."""
    return None if value is None else value[: 4 * _TEXT_MAX].decode(errors="replace")[:_TEXT_MAX]
