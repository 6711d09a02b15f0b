"""`lakemark audit`: proves from Kafka, the ledger and the tables' logs that every batch was applied once, in order, and
adds up. Needs no Spark; reads metadata and the quarantine's counts, and with `deep` every record and every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from include.audit.batches import (
    batch_findings,
    chain_findings,
    counts_on_record,
    foreign_findings,
    foreign_on_record,
    generations_begun,
)
from include.audit.beside import archive_findings, delivery_findings, look_at, never_landed, rows_by_batch
from include.audit.proofs import looks_of
from include.audit.recompute import Logs, Recomputation, recompute
from include.audit.report import AuditReport, Finding, finding_of
from include.audit.sinks import sink_findings
from include.audit.standing import set_aside_findings, until_mended
from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.lake.damage import damaged
from include.lake.data_files import file_of_int96, harmed_file
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.heads import mends_of
from include.participants.participant import POINT
from include.participants.point import verify_point
from include.participants.records import QUARANTINE
from include.participants.settled_records import settled_records
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import next_offsets, verify_source
from include.protocol.settlement import verify_ledger_not_behind
from include.settings import Settings


def audit(settings: Settings, pipeline: Pipeline, deep: bool = False, sinks: bool = False) -> AuditReport:
    """Compares what Kafka, the ledger and the tables' logs say. An empty `findings` means that all of it agrees.

    Args:
        deep: also recomputes the tables from the records that Kafka holds, and compares every row. For a landing
            nothing is recomputed. sinks: also reads what the sinks hold, and compares every row.
    """
    coordinator = Coordinator(settings, pipeline)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    reading = POINT
    try:
        before = TableLog.open(coordinator.tables.target)  # see `Coordinator._decide`: what is read when
        state = coordinator.ledger.state()  # the fold itself refuses gaps, overlaps and second commits
        log = TableLog.open(coordinator.tables.target)
        entries = log.entries(pipeline.name) if log else []
        reading = QUARANTINE
        aside_log = TableLog.open(coordinator.tables.quarantine)
        quarantined = rows_by_batch(settled_records(aside_log, pipeline.name, state)) if aside_log else {}
        aside = list(aside_log.landed_commits(pipeline.name)) if aside_log else []
    except LakemarkError as error:
        return _unreadable(coordinator, at, finding_of(error, reading))
    position = BatchKey(state.generation, state.committed_through)
    catalog = Catalog.of(pipeline)
    places = {p.name: p.uri(settings) for p in (catalog.point, *catalog.before)}
    versions = {name: _version(uri) for name, uri in places.items()}  # before the checks, so that none is later
    versions |= {POINT: log.version if log is not None else None} | {system.name: None for system in catalog.after}
    commits = [e.landed for e in entries if e.landed]
    by_key = {commit.metadata.batch.key: commit for commit in commits}
    records = {record.batch.key: record for record in state.batches}
    cancelled, unknown = never_landed(coordinator, state)
    beside = [look_at(coordinator, state, participant, cancelled) for participant in catalog.before]
    findings = [
        *unknown,
        *_marker_findings(pipeline, state, before, log),
        *_source_findings(coordinator, state),
        *chain_findings(pipeline.name, entries, state),
        *foreign_findings(pipeline.name, entries),
        *set_aside_findings(by_key.values(), aside, state.positions.get(QUARANTINE)),
        *(f for report in beside for f in report.findings),
        *archive_findings(catalog.point, pipeline.name, log),
        *(f for system in catalog.after for f in _about(system.name, delivery_findings(settings, pipeline, system))),
        *(f for one in catalog.after if sinks for f in _about(one.name, sink_findings(settings, pipeline, one.sink))),
        *(
            finding
            for key in sorted(records.keys() | by_key.keys())
            for finding in batch_findings(records.get(key), by_key.get(key), entries, quarantined.get(key, 0))
        ),
    ]
    findings += (finding for role, uri in places.items() for finding in _file_findings(pipeline, role, uri))
    other_times = {role: list(_int96_findings(pipeline, role, uri)) for role, uri in places.items()}
    findings += [finding for found in other_times.values() for finding in found]
    recomputed = Recomputation(None, (), ())
    if deep and log is not None and not pipeline.is_landing:
        refused = {role: found[0].what for role, found in other_times.items() if found}
        try:
            unapplied = Quarantine.of(coordinator).set_aside()
            logs = {**_logs(coordinator), catalog.point.name: log, **refused}
            recomputed = recompute(settings, pipeline, state, commits, logs=logs, aside=unapplied)
        except LakemarkError as error:
            findings.append(finding_of(error))
    return AuditReport(
        pipeline=pipeline.name,
        batches=len(records.keys() | by_key.keys()),
        commits_verified=len(by_key),
        records=sum(commit.metadata.counts.read for commit in by_key.values()),
        findings=(*findings, *_with_repairs(coordinator, state, recomputed.findings)),
        on_record=(
            *_losses(state, entries),
            *foreign_on_record(entries),
            *counts_on_record(entries),
            *(line for report in beside for line in report.on_record),
        ),
        recomputed=recomputed.target,
        tables=recomputed.tables,
        generation=position.generation,
        committed_through=position.batch_id,
        looks=looks_of(position, at, versions, log=findings, rows=recomputed.findings, compared=recomputed.compared),
    )


def _with_repairs(coordinator: Coordinator, state: LedgerState, in_rows: Sequence[Finding]) -> Iterable[Finding]:
    """Findings in rows; their advice is the repair that is due, where one is."""
    if in_rows:
        with suppress(LakemarkError):  # a finding of `look_at` already
            mends = mends_of(coordinator.settings, coordinator.pipeline, state)
            return until_mended(in_rows, mends, coordinator.pipeline.name)
    return in_rows


def _logs(coordinator: Coordinator) -> Logs:
    """The logs of the tables beside the target. One that cannot be opened is a finding of `look_at` already."""
    found: dict[str, TableLog | str | None] = {}
    for participant in Catalog.of(coordinator.pipeline).before:
        try:
            found[participant.name] = TableLog.open(participant.uri(coordinator.settings))
        except LakemarkError as error:
            found[participant.name] = f"{error.what}: {error.found}"
    return found


def _unreadable(coordinator: Coordinator, at: str, finding: Finding) -> AuditReport:
    """The report where the ledger, the target or the quarantine cannot be read: nothing else was looked at."""
    report = AuditReport(coordinator.pipeline.name, findings=(finding,))
    try:
        state = coordinator.ledger.recent()
    except LakemarkError:
        return report
    position = BatchKey(state.generation, state.committed_through)
    looks = looks_of(position, at, {}, log=report.findings)
    return replace(report, generation=position.generation, committed_through=position.batch_id, looks=looks)


def _version(uri: LakeUri) -> int | None:
    """A table's version; None if there is none, or if it cannot be opened, which is a finding of the checks."""
    try:
        log = TableLog.open(uri)
    except LakemarkError:
        return None
    return log.version if log is not None else None


def _about(table: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The same findings, counted against a table."""
    return (replace(finding, table=table) for finding in findings)


def _marker_findings(
    pipeline: Pipeline, state: LedgerState, before: TableLog | None, log: TableLog | None
) -> Iterator[Finding]:
    """The same checks that every plan makes (I3, I10)."""
    name, generation = pipeline.name, state.generation
    try:
        verify_ledger_not_behind(name, state, before.marker(name, generation) if before else None)
        verify_point(name, state, log)
    except LakemarkError as error:
        yield finding_of(error)


def _file_findings(pipeline: Pipeline, name: str, uri: LakeUri) -> Iterator[Finding]:
    """A table with a data file that is missing, or not as it was written. Args: name: the participant's."""
    try:
        log = TableLog.open(uri)
    except LakemarkError:
        return  # a finding already
    if log is not None and (harm := harmed_file(log.table)) is not None:
        yield finding_of(damaged(uri, harm), name)


def _int96_findings(pipeline: Pipeline, name: str, uri: LakeUri) -> Iterator[Finding]:
    """A table whose timestamps readers without Spark, and so --deep, may misread.

    Args:
        name: the participant's.
    """
    try:
        log = TableLog.open(uri)
        file = file_of_int96(log.table) if log is not None else None
    except LakemarkError as error:
        yield finding_of(error, name)
        return
    if file is not None:
        yield Finding(
            "timestamps are stored as INT96: readers without Spark misread those before 1677-09-21 and after "
            "2262-04-11 (so --deep does not compare these rows)",
            f"{pipeline.name}, {name}, file {file}",
            f"`lakemark maintain {pipeline.name}` rewrites these files; no row changes",
            name,
        )


def _source_findings(coordinator: Coordinator, state: LedgerState) -> Iterator[Finding]:
    """Does Kafka still hold what comes next, in the very topics that were read (I7)?"""
    if not state.topic_ids:
        return
    try:
        source = coordinator.source(state)
        if state.pending is not None:
            verify_source(state.pending.batch, source)
        else:
            next_offsets(coordinator.pipeline.name, state, source)
    except LakemarkError as error:
        yield finding_of(error)


def _losses(state: LedgerState, entries: list[LogEntry]) -> Iterator[str]:
    """What people gave up, for the record."""
    begun = generations_begun(entries, state)
    for generation in (begun[number] for number in sorted(begun)):
        who = f"generation {generation.generation}, {generation.started_by}: {generation.reason}"
        for lost in generation.skipped:
            yield f"{lost} was given up ({who})"
        for topic in generation.recreated:
            yield f"topic {topic} was re-created; what the old one held and no batch had read is gone ({who})"
