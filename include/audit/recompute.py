"""`audit --deep`: computes the tables again from the records that Kafka holds, and compares every row.

It shares no code with the job: librdkafka reads the records and not Spark, Python and DuckDB decode, order and compare
them, and there is no MERGE. It computes by the pipeline file as it is today. It trusts the quarantine about which
records were set aside, and checks their bytes. Rows of records that Kafka no longer holds cannot be computed; the
report says how many there are. It also says which tables cannot be computed, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import duckdb
import pyarrow as pa

from include.audit.audited_table import Audited, Reach
from include.audit.changes import TARGET, conditions_of, filter_of, make_changes
from include.audit.conditions import Conditions
from include.audit.deep_findings import record_findings, row_findings, verdicts
from include.audit.expected_history import compare_history
from include.audit.expected_rows import compare_rows
from include.audit.late_columns import late_columns, made_at
from include.audit.reach import (
    Applied,
    applied_beside,
    applied_to_target,
    held_by_kafka,
    is_of_current_topic,
    is_of_gone_topic,
    may_be_of_gone_topic,
    topics_made_anew,
)
from include.audit.report import Finding, NotRecomputed, Recomputed, RecomputedTable
from include.audit.transforming import Pinned, transformed, verify_sql
from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.participants.records import QUARANTINE
from include.pipeline_file import LINEAGE, Pipeline
from include.protocol.errors import LakemarkError
from include.protocol.ledger_state import LedgerState
from include.protocol.maintenance import purged_from, purged_offsets
from include.protocol.planning import SourceExtent
from include.protocol.settlement import LandedCommit
from include.settings import Settings
from include.sources.duckdb_records import decoded, load, same_json, unreadable
from include.sources.kafka import source_extent
from include.sources.kafka_records import records_of

_OWN_NAMES = {  # of columns in the audit's SQL
    *("_topic", "_partition", "_offset", "_timestamp", "_kind", "_absent", "_old"),
    *("_at", "_tombstone", "_undecodable", "_v", "_k", "_bare", "_deleted"),
    *("_kept", "_route", "_order", "_valid_at", "_keys", "_present", "_doubles"),
    *("_newest", "_any", "_forgotten", "_truncated", "_own", "_a", "_nth"),
}
Logs = Mapping[str, TableLog | str | None]  # by participant; a text says why its rows are not read; None: no table


@dataclass(frozen=True)
class Recomputation:
    target: Recomputed | None  # None: it cannot be computed
    tables: tuple[RecomputedTable, ...]
    findings: tuple[Finding, ...]
    compared: tuple[str, ...] = ()  # participants whose rows, or records, were compared with the source


def recompute(
    settings: Settings,
    pipeline: Pipeline,
    state: LedgerState,
    commits: Sequence[LandedCommit],
    logs: Logs,
    aside: pa.Table,
) -> Recomputation:
    """Recomputes the target, and the tables of changes beside it.

    Args:
        commits: batches in the target's log; together with the ledger's committed ones they are what was applied.
        aside: records of the quarantine that no batch has applied: topic, topic_id, partition, offset, value.

    Raises:
        RetryableError: Kafka does not answer.
    """
    audit = _Audit(settings, pipeline, state=state, commits=commits)
    listed = list(_listed(pipeline, logs))
    findings: list[Finding] = []
    compared: list[str] = []
    try:
        verify_computable(pipeline)
        read = audit.load(aside)
        findings += record_findings(audit.database, pipeline)
        compared.append(QUARANTINE)
        audit.make_changes()
    except NotRecomputed as why:
        told = [replace(table, not_recomputed=str(why)) for _, table, _ in listed]
        return Recomputation(None, tuple(told), tuple(findings), tuple(compared))
    done: list[RecomputedTable] = []
    for participant, table, log in listed:
        if log is not None:
            table, found = audit.compared(participant, table, log)
            findings += found
        done.append(table)
    [target, *_] = done
    recomputed = Recomputed(read, target.rows_equal, target.rows_beyond_reach)
    compared += [table.participant for table in done if table.not_recomputed is None]
    of_target = recomputed if target.not_recomputed is None else None
    return Recomputation(of_target, tuple(done), tuple(findings), tuple(compared))


def _listed(pipeline: Pipeline, logs: Logs) -> Iterator[tuple[Participant, RecomputedTable, TableLog | None]]:
    """The tables of changes, the target first. Those whose rows are not read say why, and have no log."""
    catalog = Catalog.of(pipeline)
    for participant in (catalog.point, *catalog.before):
        if participant.spec.kind == "append":
            continue
        log = logs[participant.name]
        why = log if isinstance(log, str) else "there is no such table yet" if log is None else None
        table = RecomputedTable(
            f"lake://{participant.path}", participant.role, participant=participant.name, not_recomputed=why
        )
        yield participant, table, None if isinstance(log, str) else log


def verify_computable(pipeline: Pipeline) -> None:
    """Raises NotRecomputed, before any record is read, if only Spark can make this pipeline's changes."""
    columns = (*pipeline.source.columns, *pipeline.columns)
    if taken := [column.name for column in columns if column.name.lower() in _OWN_NAMES]:
        raise NotRecomputed(f"a column is called {taken[0]}, as one that the audit computes with")
    if (why := unreadable(pipeline)) is not None:
        raise NotRecomputed(why)
    if pipeline.transform is not None:
        verify_sql(pipeline.transform.file)


@dataclass(frozen=True)
class _Audit:
    settings: Settings
    pipeline: Pipeline
    state: LedgerState
    commits: Sequence[LandedCommit]

    @cached_property
    def database(self) -> duckdb.DuckDBPyConnection:
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        return database

    @cached_property
    def source(self) -> SourceExtent:
        return source_extent(self.pipeline.source)

    @cached_property
    def applied(self) -> list[Applied]:
        return applied_to_target(self.state, self.commits, self.source)

    @cached_property
    def pinned(self) -> Pinned | None:
        """None without a transform."""
        if self.pipeline.transform is None:
            return None
        return Pinned.of(self.settings, self.pipeline, self.applied, self.source)

    def load(self, aside: pa.Table) -> int:
        """Loads what Kafka holds of all that was applied. Makes the tables `records`, `aside` and `decoded`. Returns
        how many records there are. Raises NotRecomputed."""
        database, pipeline = self.database, self.pipeline
        held = held_by_kafka((r for applied in self.applied for r in applied.ranges), self.source)
        read = load(database, pipeline, records_of(pipeline.source, held))
        same_json(database)
        database.register("set_aside", aside)
        database.execute(f"CREATE TABLE aside AS SELECT * FROM set_aside WHERE {is_of_current_topic(self.source)}")
        unset = 'records ANTI JOIN aside USING (topic, partition, "offset")'
        try:
            database.execute(f"CREATE TABLE decoded AS {decoded(pipeline, unset)}")
        except duckdb.Error as error:
            raise NotRecomputed(f"DuckDB cannot decode its records: {str(error).splitlines()[0]}") from error
        return read

    def make_changes(self) -> None:
        """Makes the table `changes`. Raises NotRecomputed."""
        database, settings, pipeline = self.database, self.settings, self.pipeline
        conditions = Conditions(database, settings, pipeline)
        made, asked = "SELECT * FROM decoded WHERE NOT _undecodable", filter_of(pipeline)
        if self.pinned is not None:
            decoded = conditions.answered(made, pipeline.source.columns, asked)
            made, asked = transformed(database, settings, pipeline, decoded=decoded, pinned=self.pinned), {}
        made = conditions.answered(made, pipeline.columns, {**asked, **conditions_of(pipeline)})
        make_changes(database, pipeline, made)

    def compared(
        self, participant: Participant, table: RecomputedTable, log: TableLog
    ) -> tuple[RecomputedTable, list[Finding]]:
        """What a table's rows are like, and what is wrong with them."""
        is_history = participant.spec.kind == "scd2"
        rest = TARGET if participant.route is None else participant.route
        audited = Audited(
            self.pipeline,
            name=table.table,
            is_point=participant.place == "point",
            is_history=is_history,
            route=None if participant.takes == "all changes" else rest,
            reach=self._reach(participant, log),
        )
        try:
            audited.take(self.database, log.table)
            (compare_history if is_history else compare_rows)(self.database, audited)
            equal, beyond = verdicts(self.database)
            found = [replace(one, table=table.participant) for one in row_findings(self.database, audited, log.version)]
        except (duckdb.Error, LakemarkError) as error:
            why = f"its rows cannot be compared: {(str(error).splitlines() or [''])[0]}"
            return replace(table, not_recomputed=why), []
        return replace(table, rows_equal=equal, rows_beyond_reach=beyond), found

    def _reach(self, participant: Participant, log: TableLog) -> Reach:
        applied, commits, source = self.applied, list(self.commits), self.source
        entries = log.entries(self.pipeline.name)
        if participant.place != "point":
            own = [entry.landed for entry in entries if entry.landed]
            commits += own
            applied = applied_beside(self.state, applied, own, since=made_at(log, entries), source=source)
        gone = [is_of_gone_topic(self.state, commits, source)]
        if self.pinned is not None and self.pinned.unknown:
            applied = [one for one in applied if one.batch.key not in self.pinned.unknown]
            unknown = ", ".join(f"({key.generation}, {key.batch_id})" for key in sorted(self.pinned.unknown))
            gone.append(f"(t.{LINEAGE}.generation, t.{LINEAGE}.batch_id) IN ({unknown})")
        return Reach(
            held=held_by_kafka((r for one in applied for r in one.ranges), source),
            gone=f"coalesce({' OR '.join(gone)}, false)",
            replayed=f"coalesce({may_be_of_gone_topic(self.state, commits, source)}, false)",
            made_anew=topics_made_anew(self.state, commits, source),
            purged=purged_offsets(purged_from(log.table.metadata().configuration), source.topic_ids),
            late=late_columns(log, entries, [column.name for column in self.pipeline.columns]),
        )
