"""`lakemark audit --sinks`: does each sink hold what its table held at the version that it says it has?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from include.audit.report import Finding, finding_of
from include.audit.sink_contents import Held, Values, by_key, held, in_the_lake
from include.audit.sink_values import as_it_is
from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.table_log import TableLog
from include.participants.outbox import outbox
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.sink_columns import SinkColumn, sink_columns
from include.pipeline_file.tables import Tables, table_uri
from include.protocol.errors import LakemarkError, TableDamaged
from include.protocol.sinks import SinkStanding
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
    if found is None:
        return
    known = Ledger(tables.ledger).recent().sinks.get(name, SinkStanding()).progress
    if (stands := found.stands) is None:
        if known is not None:
            told = f"the sink says of itself that it has got nothing, and the ledger that it has {known.in_words}"
            action = "somebody has removed its progress, and maybe its rows: find out who, before the next delivery"
            yield Finding(told, where, action)
        return
    log = TableLog.open(uri)
    again = f"`lakemark sinks deliver {pipeline.name} {name} --snapshot` delivers the table as it is now"
    if log is None or stands.version > log.version or stands.table_id != log.table_id:
        now = "no table" if log is None else f"version {log.version} of table {log.table_id}"
        told = f"the sink has version {stands.version} of table {stands.table_id}, and the target is {now}"
        yield Finding(told, where, again)
        return
    if sink.route is None and (of_log := _newest_batch(log, pipeline, stands.version)) not in (None, stands[2:]):
        told = f"the sink says that batch {stands[2:]} is the newest in version {stands.version}, and the log {of_log}"
        yield Finding(told, where, f"somebody has written its progress, or the lake is another one; {again}")
        return
    if found.foreign:
        shown = ", ".join(found.foreign[:_SHOWN])
        told = f"the sink has {len(found.foreign):,} records that no delivery has written, such as {shown}"
        yield Finding(told, where, "somebody else writes there: find out who")
    if sink.what == "changes":
        yield from _findings_of_changes(settings, pipeline, name, columns, found=found, log=log)
        return
    table = open_table(uri, stands.version)
    assert table is not None, "its log was there a moment ago"
    right = by_key(in_the_lake(table, columns, pipeline.seen_by_readers, of_texts=found.of_texts), columns)
    there = by_key(found.rows, columns)
    for what, keys in (
        ("lacks", right.keys() - there.keys()),
        ("has, and the target has not,", there.keys() - right.keys()),
        ("has with other values", {key for key in right.keys() & there.keys() if right[key] != there[key]}),
    ):
        if keys:
            shown = ", ".join(str(key) for key in sorted(keys, key=str)[:_SHOWN])
            told = f"the sink {what} {len(keys):,} rows of version {stands.version}, such as {shown}"
            yield Finding(told, where, f"somebody else writes there, or has: find out who; then {again}")


def _newest_batch(log: TableLog, pipeline: Pipeline, version: int) -> Values | None:
    """The newest batch up to a version, by the log; None: the log no longer says it."""
    landed = log.landed_commits(pipeline.name)
    return next((tuple(one.metadata.batch.key) for one in landed if one.table_version <= version), None)


def _findings_of_changes(
    settings: Settings, pipeline: Pipeline, name: str, columns: Sequence[SinkColumn], found: Held, log: TableLog
) -> Iterator[Finding]:
    """A sink of changes has those of a batch or none: it may have begun later, and a person may have left some out.

    Args:
        found: what it holds. log: of the target.
    """
    if (accepted := _accepted(settings, pipeline, columns, found)) is None:
        return
    assert found.stands is not None, "it has got something"
    version = found.stands.version
    commits = log.landed_commits(pipeline.name)
    landed = {tuple(one.metadata.batch.key) for one in commits if one.table_version <= version}
    there = Counter(found.rows)
    foreign = there - sum(accepted.values(), Counter[Values]())
    lacking = sum((changes for batch, changes in accepted.items() if batch in landed), Counter[Values]()) - there
    for changes in accepted.values():  # a batch of which it has nothing was left out, or came before the sink
        if changes <= lacking:
            lacking -= changes
    where = f"{pipeline.name}, sink {name}"
    for what, changes in (("lacks", lacking), ("has, and no landed batch has brought,", foreign)):
        if changes:
            shown = ", ".join(str(values) for values in sorted(changes, key=str)[:_SHOWN])
            told = f"the sink {what} {changes.total():,} changes up to version {version}, such as {shown}"
            yield Finding(told, where, "somebody else writes there, or has: find out who, and mend the rows there")


def _accepted(
    settings: Settings, pipeline: Pipeline, columns: Sequence[SinkColumn], found: Held
) -> dict[Values, Counter[Values]] | None:
    """The changes that each batch has brought, also those that a restore has taken out of the table since; None: nobody
    can tell any more. Args: found: what the sink holds."""
    [participant] = outbox(pipeline)
    uri = participant.uri(settings)
    if (log := TableLog.open(uri)) is None:
        return None
    before = [entry.version - 1 for entry in log.newest_entries(pipeline.name, None) if entry.begun is not None]
    of_batch = (*columns, *(SinkColumn(part, (LINEAGE, part), "BIGINT", False) for part in ("generation", "batch_id")))
    accepted: dict[Values, Counter[Values]] = {}
    for version in (*before, log.version):
        try:
            table = open_table(uri, version)
            rows = [] if table is None else in_the_lake(table, of_batch, "true", [*found.of_texts, as_it_is, as_it_is])
        except TableDamaged:
            if version == log.version:
                raise
            return None  # VACUUM has removed what a restore had taken out
        of_version: dict[Values, Counter[Values]] = defaultdict(Counter)
        for values in rows:
            of_version[values[-2:]][values[:-2]] += 1
        accepted |= of_version
    return accepted
