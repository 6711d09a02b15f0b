"""`lakemark audit --sinks`: does each sink hold what its table held at the version that it says it has?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from include.audit.report import Finding, finding_of
from include.audit.sink_contents import Held, by_key, held, in_the_lake
from include.lake.delta_tables import open_table
from include.lake.table_log import TableLog
from include.participants.outbox import outbox
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.sink_columns import SinkColumn, sink_columns
from include.pipeline_file.tables import Tables, table_uri
from include.protocol.errors import LakemarkError
from include.settings import Settings

_SHOWN = 5  # keys, or changes


def sink_findings(settings: Settings, pipeline: Pipeline, name: str) -> Iterator[Finding]:
    """What is wrong with a sink's rows. One that has got nothing yet, and one that cannot be read, has no findings."""
    try:
        yield from _content_findings(settings, pipeline, name)
    except LakemarkError as error:
        yield finding_of(error)


def _content_findings(settings: Settings, pipeline: Pipeline, name: str) -> Iterator[Finding]:
    sink, where = pipeline.sinks[name], f"{pipeline.name}, sink {name}"
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
    if sink.what == "changes":
        yield from _findings_of_changes(settings, pipeline, name, columns, found=found, log=log)
        return
    table = open_table(uri, found.version)
    assert table is not None, "its log was there a moment ago"
    without_nul = sink.system == "postgresql"
    right = by_key(in_the_lake(table, columns, pipeline.seen_by_readers, without_nul=without_nul), columns)
    there = by_key(found.rows, columns)
    for what, keys in (
        ("lacks", right.keys() - there.keys()),
        ("has, and the target has not,", there.keys() - right.keys()),
        ("has with other values", {key for key in right.keys() & there.keys() if right[key] != there[key]}),
    ):
        if keys:
            shown = ", ".join(str(key) for key in sorted(keys, key=str)[:_SHOWN])
            told = f"the sink {what} {len(keys):,} rows of version {found.version}, such as {shown}"
            yield Finding(told, where, f"somebody else writes there, or has: find out who; then {again}")


def _findings_of_changes(
    settings: Settings, pipeline: Pipeline, name: str, columns: Sequence[SinkColumn], found: Held, log: TableLog
) -> Iterator[Finding]:
    """A sink of changes has those of a batch or none: it may have begun later, and a person may have left some out.

    Args:
        found: what it holds. log: of the target.
    """
    [participant] = outbox(pipeline)
    if (table := open_table(participant.uri(settings))) is None:
        return
    of_batch = (*columns, *(SinkColumn(part, (LINEAGE, part), "BIGINT", False) for part in ("generation", "batch_id")))
    without_nul = pipeline.sinks[name].system == "postgresql"
    accepted = in_the_lake(table, of_batch, "true", without_nul=without_nul)
    landed = {
        tuple(one.metadata.batch.key)
        for one in log.landed_commits(pipeline.name)
        if found.version is not None and one.table_version <= found.version
    }
    there, foreign = Counter(found.rows), Counter(found.rows) - Counter(values[:-2] for values in accepted)
    begun = {values[-2:] for values in accepted if values[-2:] in landed and values[:-2] in there}
    lacking = Counter(values[:-2] for values in accepted if values[-2:] in begun) - there
    where = f"{pipeline.name}, sink {name}"
    for what, changes in (("lacks", lacking), ("has, and no landed batch has brought,", foreign)):
        if changes:
            shown = ", ".join(str(values) for values in sorted(changes, key=str)[:_SHOWN])
            told = f"the sink {what} {changes.total():,} changes up to version {found.version}, such as {shown}"
            yield Finding(told, where, "somebody else writes there, or has: find out who, and mend the rows there")
