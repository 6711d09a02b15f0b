"""`lakemark audit --sinks`: does each sink hold what the target held at the version that it says it has?"""

from __future__ import annotations

from collections.abc import Iterator

from include.audit.report import Finding, finding_of
from include.audit.sink_contents import expected, held
from include.lake.delta_tables import open_table
from include.lake.table_log import TableLog
from include.pipeline_file import Pipeline
from include.pipeline_file.sink_columns import sink_columns
from include.pipeline_file.tables import Tables, table_uri
from include.protocol.errors import LakemarkError
from include.settings import Settings

_KEYS_SHOWN = 5


def sink_findings(settings: Settings, pipeline: Pipeline, name: str) -> Iterator[Finding]:
    """What is wrong with a sink's rows. One that has got nothing yet, and one that cannot be read, has no findings."""
    try:
        yield from _content_findings(settings, pipeline, name)
    except LakemarkError as error:
        yield finding_of(error)


def _content_findings(settings: Settings, pipeline: Pipeline, name: str) -> Iterator[Finding]:
    sink, where = pipeline.sinks[name], f"{pipeline.name}, sink {name}"
    if sink.what == "changes":  # its rows are no table's
        return
    columns = sink_columns(pipeline, sink)
    found, tables = held(pipeline, name, columns), Tables.of(settings, pipeline)
    uri = tables.target if sink.route is None else table_uri(settings, sink.route)
    if found is None or found.version is None:
        return
    log = TableLog.open(uri)
    again = f"`lakemark sinks deliver {pipeline.name} {name} --snapshot` delivers the table as it is now"
    if log is None or found.version > log.version:
        newest = "no table" if log is None else f"version {log.version}"
        yield Finding(f"the sink has version {found.version}, and the target is {newest}", where, again)
        return
    table = open_table(uri, found.version)
    assert table is not None, "its log was there a moment ago"
    right = expected(table, columns, pipeline.seen_by_readers, without_nul=sink.system == "postgresql")
    for what, keys in (
        ("lacks", right.keys() - found.rows.keys()),
        ("has, and the target has not,", found.rows.keys() - right.keys()),
        ("has with other values", {key for key in right.keys() & found.rows.keys() if right[key] != found.rows[key]}),
    ):
        if keys:
            shown = ", ".join(str(key) for key in sorted(keys, key=str)[:_KEYS_SHOWN])
            told = f"the sink {what} {len(keys):,} rows of version {found.version}, such as {shown}"
            yield Finding(told, where, f"somebody else writes there, or has: find out who; then {again}")
