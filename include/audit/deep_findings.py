"""The findings of `--deep`: what is wrong with the quarantine's records, and with a table's rows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from include.audit.audited_table import Audited
from include.audit.expected_history import OTHER_STATES
from include.audit.expected_rows import BEYOND, EQUAL, NOT_OURS, OLDER, OTHER_VALUES
from include.audit.report import Finding
from include.participants.records import QUARANTINE
from include.pipeline_file import Pipeline

_EXAMPLES = 3
_VERDICTS = {
    "missing": "keys that the source holds have no row",
    "foreign": "rows were written by another writer: they have no lineage",
    "double": "rows share their key with another row",
    OTHER_VALUES: "rows have other values than their records",
    OTHER_STATES: "rows show another period than follows from the changes of their key",
    OLDER: "rows show an older change than the newest one that was applied",
    NOT_OURS: "rows point to a record that does not make such a row",
}
_OF_HISTORY = {
    "missing": "changes that the source holds have no row",
    "double": "rows share their key and their change with another row",
}


def record_findings(database: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> Iterator[Finding]:
    """From the tables `records`, `aside` and `decoded`."""
    where = f"{pipeline.name}, {QUARANTINE}"
    [(undecodable,)] = database.execute("SELECT count(*) FROM decoded WHERE _undecodable").fetchall()
    if undecodable:
        yield Finding(
            f"{undecodable} records cannot be decoded and are not in the quarantine",
            where,
            "records were dropped, or rows of the quarantine removed: restore them from its older versions",
            table=QUARANTINE,
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
            table=QUARANTINE,
        )


def verdicts(database: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """How many rows of `compared` are equal, and how many are beyond reach."""
    [(equal, beyond)] = database.execute(
        "SELECT count(*) FILTER (verdict = ?), count(*) FILTER (verdict = ?) FROM compared", [EQUAL, BEYOND]
    ).fetchall()
    return equal, beyond


def row_findings(database: duckdb.DuckDBPyConnection, audited: Audited, version: int) -> Iterator[Finding]:
    """From the table `compared`."""
    said = {**_VERDICTS, **(_OF_HISTORY if audited.is_history else {})}
    for verdict, what in said.items():
        keys = database.execute("SELECT key FROM compared WHERE verdict = ? ORDER BY key", [verdict]).fetchall()
        if keys:
            examples = ", ".join(dict.fromkeys(key for (key,) in keys[:_EXAMPLES]))
            where = f"{audited.name} version {version}, keys such as {examples}"
            yield Finding(f"{len(keys):,} {what}", where, _advice(audited))


def _advice(audited: Audited) -> str:
    name = audited.pipeline.name
    again = f"`lakemark reset {name} --from earliest --reason ...`"
    if audited.is_point:
        return (
            f"look for other writers with `lakemark audit {name}`; {again} applies all records again, but only over "
            "rows with an older change: to get rid of wrong rows, fill a new table: "
            f"`lakemark backfill {name} --into-new-table`"
        )
    return (
        f"look for other writers in the table's own log; {again} puts back what is missing, as far as Kafka holds it; "
        "to get rid of wrong rows, first move the table's folder away"
    )
