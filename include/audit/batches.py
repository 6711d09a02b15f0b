"""Checks of batches and their commits. Pure: they compare the ledger's state and the target's log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from include.audit.report import Finding, finding_of
from include.audit.standing import still_there
from include.lake.log_entry import LogEntry
from include.participants.participant import POINT
from include.participants.records import QUARANTINE
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_records import BatchRecord
from include.protocol.ledger_state import LedgerState
from include.protocol.ranges import TopicPartition
from include.protocol.settlement import LandedCommit, counts_of


def batch_findings(
    record: BatchRecord | None, landed: LandedCommit | None, entries: Sequence[LogEntry], quarantined: int
) -> Iterator[Finding]:
    """One batch: its plan in the ledger, its commit in the target's log, its records in the quarantine (I2, I3, I8).

    Args:
        record: None for a batch of a generation that has ended. landed: None if its commit is not in the log.
    """
    if landed is None:
        commit = record.commit if record else None
        if record and commit and commit.table_version is not None and commit.table_version >= _oldest(entries):
            yield Finding(
                "the ledger says that the batch is committed, the target's log has no such commit",
                f"{record.batch}, version {commit.table_version}",
                "a file of the log was lost, edited or replaced: bring it back from a copy; the rows may be missing",
            )
        return  # not landed yet, or Delta's log clean-up has removed the commit (after 30 days unless told otherwise)
    batch = record.batch if record else landed.metadata.batch
    where = f"{batch}, version {landed.table_version}"
    if not landed.metadata.fingerprint == landed.metadata.batch.fingerprint == batch.fingerprint:
        yield Finding(
            "the commit's offset ranges are not the plan's", where, "ledger and target do not belong together"
        )
    if record and record.commit and record.commit.table_version not in (None, landed.table_version):
        yield Finding(
            f"the ledger says version {record.commit.table_version}", where, "one of the two was restored or edited"
        )
    counts = landed.metadata.counts
    try:
        found = counts_of(landed, where)
        if record and record.commit and record.commit.counts not in (None, found):
            yield Finding(
                f"the ledger counted {record.commit.counts}, the commit {found}", where, "one of the two was edited"
            )
    except LakemarkError as error:
        if not _is_on_record(landed, entries):
            yield finding_of(error)
    if counts.read > batch.width:
        yield Finding(
            f"{counts.read} records were read from ranges of {batch.width} offsets",
            where,
            "records were read twice: report this",
        )
    if quarantined != counts.quarantined and not _is_on_record(landed, entries):
        yield Finding(
            f"the quarantine holds {quarantined} records, the commit says {counts.quarantined}",
            where,
            "rows of the quarantine table were removed or added by hand: restore them from its older versions",
            table=QUARANTINE,
        )


def beside_findings(pipeline: str, table: str, entries: Sequence[LogEntry], is_merged: bool) -> Iterator[Finding]:
    """The log of a table that batches write before the target: its commits add up, and nobody else changes it (I8).

    Args:
        entries: of its log. is_merged: batches merge changes into it. What they append is counted by rows.
    """
    yield from foreign_findings(pipeline, entries, table)
    for commit in (entry.landed for entry in entries if entry.landed):
        if not is_merged or _is_on_record(commit, entries) or _counts_a_difference(commit):
            continue
        try:
            counts_of(commit, f"{commit.metadata.batch}, {table} version {commit.table_version}")
        except LakemarkError as error:
            yield finding_of(error)


def cancelled_findings(
    pipeline: str, table: str, entries: Sequence[LogEntry], never_landed: Collection[BatchKey]
) -> Iterator[Finding]:
    """Chunks of cancelled backfills that a table beside the target holds, and the target does not.

    Args:
        entries: of its log. never_landed: the chunks of cancelled backfills that have not landed in the target.
    """
    for landed in _of_cancelled(entries, never_landed):
        if not _is_on_record(landed, entries):
            yield Finding(
                f"it holds rows of a chunk that never landed: {_cancelled(landed)}",
                f"{pipeline}, {table}, version {landed.table_version}",
                f"`lakemark audit {pipeline} --deep` says which rows are wrong; to get rid of them, move the table's "
                f"folder away, and `lakemark reset {pipeline} --from earliest --reason ...` fills it again; "
                f"`lakemark reset {pipeline} --reason ...` puts them on record",
            )


def cancelled_on_record(table: str, entries: Sequence[LogEntry], never_landed: Collection[BatchKey]) -> Iterator[str]:
    """The same from before the current generation."""
    for landed in _of_cancelled(entries, never_landed):
        if _is_on_record(landed, entries):
            yield f"{table}, version {landed.table_version}: rows of a chunk that never landed: {_cancelled(landed)}"


def _of_cancelled(entries: Sequence[LogEntry], never_landed: Collection[BatchKey]) -> Iterator[LandedCommit]:
    return (e.landed for e in entries if e.landed and e.landed.metadata.batch.key in never_landed)


def _cancelled(landed: LandedCommit) -> str:
    return f"backfill {-landed.metadata.batch.generation} was cancelled"


def archived_findings(
    where: str, rows: Mapping[tuple[int, int], int], entries: Sequence[Sequence[LogEntry]]
) -> Iterator[Finding]:
    """Batches of which an archive holds other records than their newest commits say (I8).

    Args:
        rows: in the archive, by generation and batch id. entries: of its log, oldest first, as each pipeline sees them
            that has written it.
    """
    landed = [[entry.landed for entry in of_one if entry.landed] for of_one in entries]
    newest = [{c.metadata.batch.key: c for c in reversed(still_there(of_one))} for of_one in landed]
    fence = max(map(_last_fence, entries), default=-1)
    for key in sorted({key for of_one in newest for key in of_one}):
        commits = [of_one[key] for of_one in newest if key in of_one]
        held, counted = rows.get(key, 0), sum(commit.metadata.counts.read for commit in commits)
        if held != counted and max(commit.table_version for commit in commits) > fence:
            yield Finding(
                f"the archive holds {held} records of the batch, its commit says {counted}",
                f"{where}, {commits[0].metadata.batch}, version {commits[0].table_version}",
                "rows were removed or added by hand: restore them from an older version of the table",
            )


def counts_on_record(entries: Sequence[LogEntry], table: str | None = None) -> Iterator[str]:
    """Commits from before the current generation whose counts do not add up.

    Args:
        table: as for `foreign_findings`.
    """
    for landed in (entry.landed for entry in entries if entry.landed):
        if _is_on_record(landed, entries) and not _counts_a_difference(landed):
            try:
                counts_of(landed, "")
            except LakemarkError as error:
                where = f"{landed.metadata.batch}, {_of(table)}version {landed.table_version}"
                yield f"{where}: {error.what}: {error.found}"


def _counts_a_difference(landed: LandedCommit) -> bool:
    """Whether a commit counts the difference between two versions, and not its batch."""
    return landed.metadata.made_from is not None


def _of(table: str | None) -> str:
    return "" if table is None else f"{table}, "


def _is_on_record(landed: LandedCommit, entries: Sequence[LogEntry]) -> bool:
    """Whether a generation has begun since: then a person has looked at the table, or filled a new one."""
    return landed.table_version < _last_fence(entries)


def generations_begun(entries: Sequence[LogEntry], state: LedgerState) -> dict[int, GenerationStarted]:
    """How each generation began: from the ledger, and from the fences in case the ledger was rebuilt."""
    return {e.begun.generation: e.begun for e in entries if e.begun} | {g.generation: g for g in state.generations}


def chain_findings(pipeline: str, entries: Sequence[LogEntry], state: LedgerState) -> Iterator[Finding]:
    """Checks every generation: its batches follow each other without gap or overlap, once each; a fence ends it (I1,
    I3-I5).

    Args:
        entries: of the target's log, oldest first.
    """
    commits = [e.landed for e in entries if e.landed]
    begun = generations_begun(entries, state)
    fenced_at = {e.begun.generation - 1: e.version for e in entries if e.begun}
    for generation in sorted({c.metadata.batch.generation for c in commits}):
        chain = [c for c in commits if c.metadata.batch.generation == generation]
        where = f"{pipeline} generation {generation}"
        yield from _doubled(where, chain)
        if generation < 0:  # a backfill's chunks land in any order
            continue
        yield from _sequence(where, chain)
        starts = dict(begun[generation].start_offsets) if generation in begun else {}
        yield from _tiling(where, chain, starts)
        late = [c.table_version for c in chain if c.table_version > fenced_at.get(generation, c.table_version)]
        if late:
            yield Finding(
                "a batch landed after its generation was fenced",
                f"{where}, versions {', '.join(map(str, late))}",
                "the log was edited, or this is a defect of Lakemark: keep the log and report it",
            )


def foreign_findings(pipeline: str, entries: Sequence[LogEntry], table: str | None = None) -> Iterator[Finding]:
    """Commits of other writers that change rows: Lakemark's guarantees do not cover them.

    Args:
        table: one beside the target.
    """
    where = pipeline if table is None else f"{pipeline}, {table}"
    for entry in _foreign(entries):
        if entry.version > _last_fence(entries):
            accept = f" --accept {table or POINT}" if entry.operation == "RESTORE" else ""  # it may lack rows now
            yield Finding(
                f"another writer changed the table's rows: {entry.operation}",
                f"{where}, version {entry.version}, by {entry.engine}",
                f"find out who; to undo it, RESTORE the version before: `lakemark run {pipeline}` says from which "
                "batch on to read again, if any has landed since; if it is as it should be, "
                f"`lakemark reset {pipeline}{accept} --reason ...` puts it on record",
            )


def foreign_on_record(entries: Sequence[LogEntry], table: str | None = None) -> Iterator[str]:
    """The same from before the current generation began: a person has looked at the table since."""
    for entry in _foreign(entries):
        if entry.version < _last_fence(entries):
            what = f"{_of(table)}version {entry.version} is a {entry.operation} by {entry.engine}"
            yield f"{what}, from before this generation began"


def _foreign(entries: Sequence[LogEntry]) -> Iterator[LogEntry]:
    return (entry for entry in entries if entry.is_foreign)


def _last_fence(entries: Sequence[LogEntry]) -> int:
    return max((entry.version for entry in entries if entry.begun), default=-1)


def _oldest(entries: Sequence[LogEntry]) -> int:
    return min((entry.version for entry in entries), default=0)


def _doubled(where: str, chain: Sequence[LandedCommit]) -> Iterator[Finding]:
    versions: dict[int, list[int]] = {}
    for commit in chain:
        versions.setdefault(commit.metadata.batch.batch_id, []).append(commit.table_version)
    for batch_id, found in sorted(versions.items()):
        if len(found) > 1:
            yield Finding(
                f"batch {batch_id} is in the target's log {len(found)} times",
                f"{where}, versions {', '.join(map(str, found))}",
                "the table may hold it twice: the log was edited, or this is a defect; keep the log and report it",
            )


def _sequence(where: str, chain: Sequence[LandedCommit]) -> Iterator[Finding]:
    for before, after in pairwise(chain):
        ids = before.metadata.batch.batch_id, after.metadata.batch.batch_id
        if ids[1] not in (ids[0], ids[0] + 1):  # the same id twice is a finding of its own
            yield Finding(
                f"batch {ids[1]} follows batch {ids[0]} in the target's log",
                f"{where}, version {after.table_version}",
                "a commit is missing or out of order: bring the log's file back from a copy",
            )


def _tiling(where: str, chain: Sequence[LandedCommit], starts: dict[TopicPartition, int]) -> Iterator[Finding]:
    position = starts
    for commit in chain:
        for r in commit.metadata.batch.ranges:
            expected = position.get(r.topic_partition, r.start_offset)
            if r.start_offset != expected:
                yield Finding(
                    f"{r} does not start at offset {expected}, where the batch before ended",
                    f"{where} batch {commit.metadata.batch.batch_id}, version {commit.table_version}",
                    "records were passed over or read twice: the log was edited, or this is a defect; report it",
                )
            position[r.topic_partition] = r.end_offset
