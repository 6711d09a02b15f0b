"""`audit --deep`: computes the table again from the records that Kafka holds, and compares every row.

It shares no code with the job: librdkafka reads the records and not Spark, DuckDB decodes, orders and compares them,
and there is no MERGE. It trusts the quarantine about which records were set aside, and checks their bytes. Keys whose
newest applied record Kafka no longer holds cannot be computed; the report says how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import pyarrow as pa
import sqlglot

from include.audit.reach import (
    applied_ranges,
    held_by_kafka,
    is_of_current_topic,
    is_of_gone_topic,
    may_be_of_gone_topic,
)
from include.audit.report import Finding, Recomputed
from include.lake.delta_tables import OpenedTable, query_arrow
from include.lake.sql import sql_name, sql_text
from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.errors import TerminalError
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import purged_from, purged_offsets
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.settlement import LandedCommit
from include.sources.duckdb_json import decoded, load
from include.sources.kafka import source_extent
from include.sources.kafka_records import records_of

_EXAMPLES = 3
_POSITION = ("_topic", "_partition", "_offset")


def recompute(
    pipeline: Pipeline, state: LedgerState, commits: Sequence[LandedCommit], target: OpenedTable, aside: pa.Table
) -> tuple[Recomputed, list[Finding]]:
    """Recomputes the table. Returns how much was compared, and what differs.

    Args:
        commits: batches in the target's log; together with the ledger's committed ones they are what was applied.
        aside: records of the quarantine that no batch has applied: topic, topic_id, partition, offset, value.

    Raises:
        RetryableError: Kafka does not answer. TerminalError: a condition or type cannot be computed here.
    """
    _verify_within_reach(pipeline)
    source = source_extent(pipeline.source)
    held = held_by_kafka(applied_ranges(state, commits, source), source)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    read = load(database, records_of(pipeline.source, held))
    _register(database, "target", target)
    database.register("set_aside", aside)
    database.execute(f"CREATE TABLE aside AS SELECT * FROM set_aside WHERE {is_of_current_topic(source)}")
    _compute(database, pipeline)
    marks = purged_from(target.metadata().configuration)
    _compare(
        database,
        pipeline,
        held=held,
        purged=purged_offsets(marks, source.topic_ids),
        gone=is_of_gone_topic(state, commits, source),
        replayed=may_be_of_gone_topic(state, commits, source),
    )
    findings = [*_record_findings(database, pipeline), *_row_findings(database, pipeline, target.version())]
    [(equal, beyond)] = database.execute(
        "SELECT count(*) FILTER (verdict = 'equal'), count(*) FILTER (verdict = 'beyond reach') FROM compared"
    ).fetchall()
    return Recomputed(read, equal, beyond), findings


def _verify_within_reach(pipeline: Pipeline) -> None:
    """Refuses other tables than those that hold the newest change of every key, as its record has it."""
    change = pipeline.change
    settings = {
        "change.history": change.history if change.history == "scd2" else None,
        "change.absent": "keep" if pipeline.partial_columns else None,
        "change.previous_keys": change.previous_keys,
        "change.on_schema_change": "rescue" if pipeline.rescues else None,
        "transform": pipeline.transform and pipeline.transform.file,
        "target.routes": [route.table for route in pipeline.target.routes],
    }
    beyond = [f"{name}: {value}" for name, value in settings.items() if value]
    if beyond:
        raise TerminalError(
            what="what this pipeline makes of records is not computed outside Spark",
            where=pipeline.name,
            expected="one row per key, of the newest record as it is",
            found="; ".join(beyond),
            action="`lakemark audit` without --deep shows all that can be shown without it",
        )


def _register(database: duckdb.DuckDBPyConnection, name: str, table: OpenedTable) -> None:
    database.register(name, query_arrow(table, "select * from t"))


def _compute(database: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
    """Makes the tables `decoded` (every record that was not set aside) and `expected` (every key's newest change)."""
    unset = 'records ANTI JOIN aside USING (topic, partition, "offset")'
    database.execute(f"CREATE TABLE decoded AS {decoded(pipeline, unset)}")
    wanted = _condition(pipeline.source.filter) if pipeline.source.filter else "true"
    deleted = _condition(pipeline.change.delete_when) if pipeline.change.delete_when else "false"
    is_change = "NOT _tombstone" if pipeline.tombstones == "ignore" else "true"
    keys = ", ".join(map(sql_name, pipeline.change.keys))
    order = ", ".join(f"{name} DESC" for name in [*map(sql_name, pipeline.change.order_by), *_POSITION])
    database.execute(
        f"CREATE TABLE expected AS SELECT *, _tombstone OR coalesce({deleted}, false) AS _deleted FROM decoded "
        f"WHERE (_tombstone OR {_bare(pipeline, deleted)} OR coalesce({wanted}, false)) AND NOT _undecodable "
        f"AND {is_change} "
        f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"
    )


def _bare(pipeline: Pipeline, deleted: str) -> str:
    """SQL condition: a record is a delete that holds only a key. Such records are not filtered."""
    others = " AND ".join(f"{sql_name(name)} IS NULL" for name in pipeline.beyond_deletes) or "true"
    return f"(coalesce({deleted}, false) AND {others})"


def _compare(
    database: duckdb.DuckDBPyConnection,
    pipeline: Pipeline,
    held: Sequence[OffsetRange],
    purged: Mapping[TopicPartition, int],
    gone: str,
    replayed: str,
) -> None:
    """Makes the table `compared`: the verdict on every row of the target, and on every key that has none.

    Args:
        purged: offsets, end exclusive, below which maintenance may have removed tombstones.
        gone: condition on a row: its record is of a topic that is gone.
        replayed: condition on a row: its record may be of such a topic.
    """
    lineage = f"t.{LINEAGE}"
    keys = " AND ".join(f"t.{sql_name(key)} IS NOT DISTINCT FROM e.{sql_name(key)}" for key in pipeline.change.keys)
    of_row = [f"{lineage}.change_order.{sql_name(name)}" for name in [*pipeline.change.order_by, *_POSITION]]
    of_change = [f"e.{sql_name(name)}" for name in [*pipeline.change.order_by, *_POSITION]]
    values = [c.name for c in pipeline.columns if c.name not in pipeline.change.keys]
    differs = " OR ".join(
        [f"{lineage}.deleted IS DISTINCT FROM e._deleted"]
        + [
            f"t.{sql_name(name)} IS DISTINCT FROM CASE WHEN NOT e._deleted THEN e.{sql_name(name)} END"
            for name in values
        ]
    )
    within = " OR ".join(
        f"({lineage}.topic = {sql_text(r.topic)} AND {lineage}.partition = {r.partition} "
        f'AND {lineage}."offset" >= {r.start_offset} AND {lineage}."offset" < {r.end_offset})'
        for r in held
    )
    forgotten = " OR ".join(
        f"(e._topic = {sql_text(tp.topic)} AND e._partition = {tp.partition} AND e._offset < {offset})"
        for tp, offset in sorted(purged.items())
    )
    named = ", ".join(f"coalesce(t.{sql_name(key)}, e.{sql_name(key)})" for key in pipeline.change.keys)
    partition = ", ".join(f"t.{sql_name(key)}" for key in pipeline.change.keys)
    database.execute(
        f"""CREATE TABLE compared AS SELECT row({named})::VARCHAR AS key, CASE
            WHEN t._present IS NULL AND e._deleted AND ({forgotten or "false"}) THEN 'purged'
            WHEN t._present IS NULL THEN 'missing'
            WHEN {lineage}.change_order IS NULL THEN 'foreign'
            WHEN count(*) OVER (PARTITION BY t._present, {partition}) > 1 AND t._present THEN 'double'
            WHEN e._topic IS NOT NULL AND ({", ".join(of_row)}) < ({", ".join(of_change)}) THEN 'older'
            WHEN {gone} THEN 'beyond reach'
            WHEN ({", ".join(of_row)}) = ({", ".join(of_change)}) AND NOT ({differs}) THEN 'equal'
            WHEN {replayed} THEN 'beyond reach'
            WHEN ({", ".join(of_row)}) = ({", ".join(of_change)}) THEN 'other values'
            WHEN {within or "false"} THEN 'not from the source'
            ELSE 'beyond reach' END AS verdict
        FROM (SELECT *, true AS _present FROM target) t FULL JOIN expected e ON {keys}"""
    )


def _record_findings(database: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> Iterator[Finding]:
    where = f"{pipeline.name}, quarantine"
    [(undecodable,)] = database.execute("SELECT count(*) FROM decoded WHERE _undecodable").fetchall()
    if undecodable:
        yield Finding(
            f"{undecodable} records are no JSON objects and are not in the quarantine",
            where,
            "records were dropped, or rows of the quarantine removed: restore them from its older versions",
        )
    [(changed,)] = database.execute(
        'SELECT count(*) FROM records r JOIN aside a USING (topic, partition, "offset") '
        "WHERE r.value IS DISTINCT FROM a.value"
    ).fetchall()
    if changed:
        yield Finding(
            f"{changed} quarantined records hold other bytes than Kafka does",
            where,
            "rows of the quarantine were edited: restore them from its older versions",
        )


_VERDICTS = {
    "missing": "keys that the source holds have no row",
    "foreign": "rows were written by another writer: they have no lineage",
    "double": "rows share their key with another row",
    "other values": "rows have other values than their records",
    "older": "rows show an older change than the newest one that was applied",
    "not from the source": "rows point to a record that does not make such a row",
}


def _row_findings(database: duckdb.DuckDBPyConnection, pipeline: Pipeline, version: int) -> Iterator[Finding]:
    for verdict, what in _VERDICTS.items():
        keys = database.execute("SELECT key FROM compared WHERE verdict = ? ORDER BY key", [verdict]).fetchall()
        if keys:
            yield Finding(
                f"{len(keys):,} {what}",
                f"{pipeline.target.table} version {version}, keys such as "
                f"{', '.join(key for (key,) in keys[:_EXAMPLES])}",
                f"look for other writers with `lakemark audit {pipeline.name}`; `lakemark reset {pipeline.name} --from "
                "earliest --reason ...` applies all records again, but only over rows with an older change: to get "
                f"rid of wrong rows, fill a new table: `lakemark backfill {pipeline.name} --into-new-table`",
            )


def _condition(condition: str) -> str:
    """A condition in Spark's SQL, translated to DuckDB's."""
    try:
        return sqlglot.transpile(condition, read="spark", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)[0]
    except sqlglot.errors.SqlglotError as error:
        raise TerminalError(
            what="the condition cannot be computed outside Spark",
            where=condition,
            expected="SQL that Spark and DuckDB share",
            found=str(error).splitlines()[0],
            action="`lakemark audit` without --deep shows all that can be shown without it",
        ) from error
