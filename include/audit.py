"""Proves from the ledger and the tables' logs that every batch was applied once, in order, and adds up. Needs no Spark.

First form: ledger contiguous, marker and ledger agree, counts add up (I1, I3, I8). Reads metadata and the quarantine's
counts; Kafka is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from include.pipeline_file import Pipeline
from include.protocol.batch import FENCE
from include.protocol.counts import account
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import BatchRecord, LedgerState
from include.protocol.settlement import LandedCommit
from include.settings import Settings
from include.steps import Steps
from include.target_log import TableLog


@dataclass(frozen=True)
class Finding:
    """Something that does not hold: what, where, what to do."""

    what: str
    where: str
    action: str

    def __str__(self) -> str:
        return f"{self.what} ({self.where}). What to do: {self.action}"


@dataclass(frozen=True)
class AuditReport:
    pipeline: str
    batches: int
    commits_verified: int  # batches whose commit is still in the log, and was compared
    records: int  # read by the committed batches, as their commits say
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def audit(settings: Settings, pipeline: Pipeline) -> AuditReport:
    """Compares the ledger with what the tables' logs say; an empty `findings` means that all of it holds."""
    steps = Steps(settings, pipeline)
    try:
        state = steps.ledger.state()  # the fold itself refuses gaps, overlaps and second commits
    except LakemarkError as error:
        return AuditReport(
            pipeline.name, 0, 0, 0, (Finding(error.what, f"{error.where}: {error.found}", error.action),)
        )
    log = TableLog.open(steps.tables.target)
    commits = list(log.landed_commits(pipeline.name, state.generation)) if log else []
    landed = {commit.metadata.batch.batch_id: commit for commit in commits}
    quarantined = _quarantined(steps.tables.quarantine, state.generation)
    findings = [
        *_marker_findings(pipeline.name, state, log),
        *_doubled(pipeline.name, commits),
        *(
            f
            for record in state.batches
            for f in _batch_findings(record, landed.get(record.batch.batch_id), quarantined)
        ),
    ]
    return AuditReport(
        pipeline=pipeline.name,
        batches=len(state.batches),
        commits_verified=len(landed),
        records=sum(c.metadata.counts.read for c in landed.values()),
        findings=tuple(findings),
    )


def _marker_findings(name: str, state: LedgerState, log: TableLog | None) -> Iterator[Finding]:
    where = f"{name} generation {state.generation}"
    marker = log.marker(name, state.generation) if log else None
    if marker == FENCE:
        yield Finding("the ledger works in a generation that is fenced", where, "restore the ledger, it is too old")
        return
    landed = -1 if marker is None else marker
    if landed < state.committed_through:
        yield Finding(
            f"the ledger says that batches to {state.committed_through} are committed, the target's marker is {marker}",
            where,
            "the target was replaced or rolled back: do not run the pipeline before that is understood",
        )
    elif landed >= state.next_batch_id:
        yield Finding(
            f"the target holds batch {marker}, the ledger knows batches below {state.next_batch_id}",
            where,
            "the ledger was lost or replaced: restore it before the pipeline runs again",
        )


def _doubled(name: str, commits: list[LandedCommit]) -> Iterator[Finding]:
    """Batches that more than one commit of the target says to be (I3)."""
    versions: dict[int, list[int]] = {}
    for commit in commits:
        versions.setdefault(commit.metadata.batch.batch_id, []).append(commit.table_version)
    for batch_id, found in sorted(versions.items()):
        if len(found) > 1:
            yield Finding(
                f"batch {batch_id} is in the target's log {len(found)} times",
                f"{name}, versions {', '.join(map(str, sorted(found)))}",
                "the table may hold it twice: the log was edited, or this is a defect; keep the log and report it",
            )


def _batch_findings(record: BatchRecord, landed: LandedCommit | None, quarantined: dict[int, int]) -> Iterator[Finding]:
    batch = record.batch
    if landed is None:
        return  # not landed yet, or Delta's log clean-up has removed the commit (after 30 days unless told otherwise)
    where = f"{batch}, version {landed.table_version}"
    if not landed.metadata.fingerprint == landed.metadata.batch.fingerprint == batch.fingerprint:
        yield Finding(
            "the commit's offset ranges are not the plan's", where, "ledger and target do not belong together"
        )
    if record.commit is not None and record.commit.table_version not in (None, landed.table_version):
        yield Finding(
            f"the ledger says version {record.commit.table_version}", where, "one of the two was restored or edited"
        )
    counts = landed.metadata.counts
    try:
        account(counts, landed.merge_source_rows, landed.rows_applied, where)
    except LakemarkError as error:
        yield Finding(f"{error.what}: expected {error.expected}, found {error.found}", where, error.action)
    if counts.read > batch.width:
        yield Finding(
            f"{counts.read} records were read from ranges of {batch.width} offsets",
            where,
            "records were read twice: report this",
        )
    if quarantined.get(batch.batch_id, 0) != counts.quarantined:
        yield Finding(
            f"the quarantine holds {quarantined.get(batch.batch_id, 0)} records, the commit says {counts.quarantined}",
            where,
            "rows of the quarantine table were removed or added by hand: restore them from its older versions",
        )


def _quarantined(path: str, generation: int) -> dict[int, int]:
    """Records in the quarantine by batch id."""
    log = TableLog.open(path)
    if log is None:
        return {}
    query = QueryBuilder().register("quarantine", log.table)
    rows = query.execute(
        f"select batch_id, count(*) as records from quarantine where generation = {generation} group by batch_id"
    ).read_all()
    return {row["batch_id"]: row["records"] for row in pa.table(rows).to_pylist()}
