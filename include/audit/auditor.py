"""`lakemark audit`: proves from Kafka, the ledger and the tables' logs that every batch was applied once, in order, and
adds up. Needs no Spark; reads metadata and the quarantine's counts, and with `deep` every record and every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from include.audit.batches import (
    archived_findings,
    batch_findings,
    beside_findings,
    chain_findings,
    counts_on_record,
    foreign_findings,
    foreign_on_record,
    generations_begun,
)
from include.audit.recompute import Recomputation, Tables, recompute
from include.audit.report import AuditReport, Finding
from include.audit.standing import lacking_findings, set_aside_findings, surplus_findings
from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.lake.delta_tables import file_of_int96, query
from include.lake.log_entry import LogEntry
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.pipeline_file import LANDING, Pipeline
from include.protocol.errors import LakemarkError, LedgerBehindTarget
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position
from include.protocol.planning import next_offsets, verify_source
from include.protocol.settlement import verify_ledger_not_behind, verify_target_not_behind
from include.settings import Settings


def audit(settings: Settings, pipeline: Pipeline, deep: bool = False) -> AuditReport:
    """Compares what Kafka, the ledger and the tables' logs say. An empty `findings` means that all of it agrees.

    Args:
        deep: also recomputes the tables from the records that Kafka holds, and compares every row. For a landing
            nothing is recomputed.
    """
    coordinator = Coordinator(settings, pipeline)
    try:
        before = TableLog.open(coordinator.tables.target)  # see `Coordinator._decide`: what is read when
        state = coordinator.ledger.state()  # the fold itself refuses gaps, overlaps and second commits
        log = TableLog.open(coordinator.tables.target)
        entries = log.entries(pipeline.name) if log else []
        aside_log = TableLog.open(coordinator.tables.quarantine)
        quarantined = _rows_by_batch(aside_log)
        aside = list(aside_log.landed_commits(pipeline.name)) if aside_log else []
    except LakemarkError as error:
        return AuditReport(pipeline.name, findings=(_finding(error),))
    commits = [e.landed for e in entries if e.landed]
    by_key = {commit.metadata.batch.key: commit for commit in commits}
    records = {record.batch.key: record for record in state.batches}
    findings = [
        *_marker_findings(pipeline, state, before, log),
        *_source_findings(coordinator, state),
        *chain_findings(pipeline.name, entries, state),
        *foreign_findings(pipeline.name, entries),
        *set_aside_findings(by_key.values(), aside, state.positions.get("quarantine")),
        *_beside_findings(coordinator, state),
        *_archived_findings(Catalog.of(pipeline).point, pipeline.name, log),
        *(
            finding
            for key in sorted(records.keys() | by_key.keys())
            for finding in batch_findings(records.get(key), by_key.get(key), entries, quarantined.get(key, 0))
        ),
    ]
    catalog = Catalog.of(pipeline)
    places = {p.name: p.uri(settings) for p in (catalog.point, *catalog.before)}
    other_times = {role: list(_int96_findings(pipeline, {role: uri})) for role, uri in places.items()}
    findings += [finding for found in other_times.values() for finding in found]
    recomputed = Recomputation(None, (), ())
    if deep and log is not None and not pipeline.is_landing:
        refused = {role: found[0].what for role, found in other_times.items() if found}
        try:
            unapplied = Quarantine.of(coordinator).set_aside()
            tables = _tables(coordinator, log, refused)
            recomputed = recompute(settings, pipeline, state, commits, tables=tables, aside=unapplied)
        except LakemarkError as error:
            findings.append(_finding(error))
    return AuditReport(
        pipeline=pipeline.name,
        batches=len(records.keys() | by_key.keys()),
        commits_verified=len(by_key),
        records=sum(commit.metadata.counts.read for commit in by_key.values()),
        findings=(*findings, *recomputed.findings),
        on_record=(*_losses(state, entries), *foreign_on_record(entries), *counts_on_record(entries)),
        recomputed=recomputed.target,
        tables=recomputed.tables,
    )


def _tables(coordinator: Coordinator, target: TableLog, refused: dict[str, str]) -> Tables:
    """The logs of the tables to recompute. One that cannot be opened is a finding of `_beside_findings` already.

    Args:
        refused: why a table's rows are not read, by role.
    """
    found: dict[str, TableLog | None] = {}
    for participant in Catalog.of(coordinator.pipeline).before:
        if participant.spec.kind == "append":
            continue
        name = participant.name
        try:
            found[name] = TableLog.open(participant.uri(coordinator.settings))
        except LakemarkError as error:
            refused = {**refused, name: f"{error.what}: {error.found}"}
    routes = {role: log for role, log in found.items() if role != "history"}
    return Tables(target, history=found.get("history"), routes=routes, refused=refused)


def _finding(error: LakemarkError) -> Finding:
    return Finding(f"{error.what}: expected {error.expected}, found {error.found}", error.where, error.action)


def _marker_findings(
    pipeline: Pipeline, state: LedgerState, before: TableLog | None, log: TableLog | None
) -> Iterator[Finding]:
    """The same checks that every plan makes (I3, I10)."""
    name, generation = pipeline.name, state.generation
    try:
        verify_ledger_not_behind(name, state, before.marker(name, generation) if before else None)
        verify_target_not_behind(name, state, log.view(name, generation, state.target_version) if log else None)
    except LakemarkError as error:
        yield _finding(error)


def _beside_findings(coordinator: Coordinator, state: LedgerState) -> Iterator[Finding]:
    """Findings in the archive, in the history and in routes' tables."""
    name = coordinator.pipeline.name
    for participant in Catalog.of(coordinator.pipeline).before:
        try:
            log = TableLog.open(participant.uri(coordinator.settings))
            yield from _standing_findings(coordinator, participant, log, state)
            yield from beside_findings(name, participant.name, [] if log is None else log.entries(name))
            yield from _archived_findings(participant, name, log)
        except LakemarkError as error:
            yield _finding(error)


def _standing_findings(
    coordinator: Coordinator, participant: Participant, log: TableLog | None, state: LedgerState
) -> Iterator[Finding]:
    """A table that does not stand where the last landed batch has left it.

    Others plan and land at the same time, so what looks wrong is looked at again. The ledger is read after this log, to
    learn which batch has begun there. If the log lacks a batch of that ledger, it is read again (see
    `Coordinator._decide`).

    Args:
        state: as read before `log`.
    """
    name, uri = coordinator.pipeline.name, participant.uri(coordinator.settings)

    def lacks(log: TableLog | None) -> list[Finding]:
        return list(lacking_findings(name, state, participant.name, _position(log, name, state)))

    def holds_more() -> list[Finding]:
        return list(surplus_findings(name, state, participant.name, _position(log, name, state)))

    with suppress(LedgerBehindTarget):
        if not (lacks(log) or holds_more()):
            return
    state = coordinator.ledger.state()
    yield from holds_more()
    if lacks(log):
        yield from lacks(TableLog.open(uri))


def _position(log: TableLog | None, pipeline: str, state: LedgerState) -> Position:
    return NOWHERE if log is None else log.position(pipeline, state.generation, state.form)


def _int96_findings(pipeline: Pipeline, tables: Mapping[str, LakeUri]) -> Iterator[Finding]:
    """Tables whose timestamps readers without Spark, and so --deep, may misread.

    Args:
        tables: their places, by role.
    """
    for role, uri in tables.items():
        try:
            log = TableLog.open(uri)
            name = file_of_int96(log.table) if log is not None else None
        except LakemarkError as error:
            yield _finding(error)
            continue
        if name is not None:
            yield Finding(
                "timestamps are stored as INT96: readers without Spark misread those before 1677-09-21 and after "
                "2262-04-11 (so --deep does not compare these rows)",
                f"{pipeline.name}, {role}, file {name}",
                f"`lakemark maintain {pipeline.name}` rewrites these files; no row changes",
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
        yield _finding(error)


def _losses(state: LedgerState, entries: list[LogEntry]) -> Iterator[str]:
    """What people gave up, for the record."""
    begun = generations_begun(entries, state)
    for generation in (begun[number] for number in sorted(begun)):
        who = f"generation {generation.generation}, {generation.started_by}: {generation.reason}"
        for lost in generation.skipped:
            yield f"{lost} was given up ({who})"
        for topic in generation.recreated:
            yield f"topic {topic} was re-created; what the old one held and no batch had read is gone ({who})"


def _archived_findings(participant: Participant, pipeline: str, log: TableLog | None) -> Iterator[Finding]:
    """Batches of which an archive holds other records than their commits say. A pipeline and its landing may both have
    written it, one after the other."""
    if participant.takes == "records" and log is not None:
        merging = pipeline.removesuffix(LANDING)
        entries = [log.entries(name) for name in (merging, f"{merging}{LANDING}")]
        yield from archived_findings(f"{pipeline}, {participant.name}", _rows_by_batch(log), entries)


def _rows_by_batch(log: TableLog | None) -> dict[tuple[int, int], int]:
    """Rows of a table of records, by generation and batch id; empty if there is no table."""
    sql = "select generation, batch_id, count(*) as records from t group by 1, 2"
    return {(r["generation"], r["batch_id"]): r["records"] for r in query(log.table, sql)} if log else {}
