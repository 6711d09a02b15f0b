"""Looks at what a batch writes beside the target: the tables before the point, and the systems after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from include.audit.batches import (
    archived_findings,
    beside_findings,
    cancelled_findings,
    cancelled_on_record,
    counts_on_record,
    foreign_on_record,
)
from include.audit.report import Finding, finding_of
from include.audit.standing import lacking_findings, surplus_findings
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.control.deliveries import Deliverer
from include.lake.delta_tables import query
from include.lake.table_log import TableLog
from include.participants.follower import Follower
from include.participants.heads import verify_not_rolled_back
from include.participants.participant import Participant
from include.participants.settled_records import Part
from include.pipeline_file import Pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError, LedgerBehindTarget
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import NOWHERE, Position, Where
from include.settings import Settings
from include.sources.archive import ArchiveSource


@dataclass(frozen=True)
class BesideReport:
    """What an audit found in one table before the point."""

    findings: tuple[Finding, ...]
    on_record: tuple[str, ...]  # as in `AuditReport`


def look_at(
    coordinator: Coordinator, state: LedgerState, participant: Participant, never_landed: Collection[BatchKey]
) -> BesideReport:
    """Looks at a table before the point. Args: never_landed: as for `cancelled_findings`."""
    found: list[Finding] = []
    on_record: list[str] = []
    name, table, is_merged = coordinator.pipeline.name, participant.name, participant.spec.kind != "append"
    try:
        log = TableLog.open(participant.uri(coordinator.settings))
        found += _standing_findings(coordinator, participant, log, state)
        entries = [] if log is None else log.entries(name)
        found += beside_findings(name, table, entries, is_merged=is_merged)
        on_record += foreign_on_record(entries, table)
        if is_merged:  # readers of the quarantine ask the ledger which chunks have landed
            found += cancelled_findings(name, table, entries, never_landed)
            on_record += (*counts_on_record(entries, table), *cancelled_on_record(table, entries, never_landed))
        found += archive_findings(participant, name, log)
        verify_not_rolled_back(log, state.positions.get(table), Where(name, table))
        if log is not None and log.uri == coordinator.tables.archive:
            ArchiveSource.of(coordinator.settings, coordinator.pipeline, state).verify_whole()
    except LakemarkError as error:
        found.append(finding_of(error))
    return BesideReport(tuple(replace(finding, table=table) for finding in found), tuple(on_record))


def never_landed(coordinator: Coordinator, state: LedgerState) -> tuple[set[BatchKey], list[Finding]]:
    """The chunks of cancelled backfills that are in no target; and why that is not known."""
    cancelled = [record.backfill for record in state.backfills.values() if record.outcome == "cancelled"]
    try:
        chunks = ((backfill, chunk) for backfill in cancelled for chunk in Backfills(coordinator).chunks(backfill))
        return {backfill.batch(chunk.chunk).key for backfill, chunk in chunks if chunk.state != "landed"}, []
    except LakemarkError as error:
        return set(), [finding_of(error)]


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


def archive_findings(participant: Participant, pipeline: str, log: TableLog | None) -> Iterator[Finding]:
    """Batches of which an archive holds other records than their commits say. A pipeline, its landing, and pipelines of
    earlier names may all have written it, one after the other."""
    if participant.takes == "records" and log is not None:
        entries = [log.entries(name) for name in log.pipelines]
        yield from archived_findings(f"{pipeline}, {participant.name}", rows_by_batch([(log.table, "true")]), entries)


def rows_by_batch(parts: Iterable[Part]) -> dict[tuple[int, int], int]:
    """Rows of a table of records, by generation and batch id."""
    sql = "select generation, batch_id, count(*) as records from t where {} group by 1, 2"
    rows = (row for table, which in parts for row in query(table, sql.format(which)))
    return {(row["generation"], row["batch_id"]): row["records"] for row in rows}


def delivery_findings(settings: Settings, pipeline: Pipeline, follower: Follower) -> Iterator[Finding]:
    """A sink whose last delivery has failed, as far as the ledger knows."""
    standing = Deliverer(settings, pipeline, follower.sink).standing
    if standing.problem is not None:
        yield Finding(
            f"the last delivery to {follower.in_words} failed: {standing.problem}",
            f"{pipeline.name}, {follower.name}",
            f"`lakemark sinks deliver {pipeline.name} {follower.sink}` delivers what waits, or says why it cannot",
        )
