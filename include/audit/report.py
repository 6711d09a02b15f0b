"""The report of an audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from include.participants.participant import POINT
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.protocol.proofs import Proofs


class NotRecomputed(Exception):
    """Why `--deep` cannot compute a table. It is reported with the table, and is no finding."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be: what, where, what to do."""

    what: str
    where: str
    action: str
    table: str = POINT  # the participant that it counts against; the target also for what is wrong with the source

    def __str__(self) -> str:
        return f"{self.what} ({self.where}). What to do: {self.action}"


def finding_of(error: LakemarkError, table: str = POINT) -> Finding:
    """What a check of the protocol refuses, as a finding."""
    what = f"{error.what}: expected {error.expected}, found {error.found}"
    return Finding(what, error.where, error.action, table)


@dataclass(frozen=True)
class Recomputed:
    """What `--deep` found: it computes the table again from the source's records, by other code than the job's."""

    records_read: int
    rows_equal: int
    # From records that Kafka no longer holds, or that another pipeline read: they could not be computed.
    rows_beyond_reach: int

    def __str__(self) -> str:
        beyond = (
            f"; {self.rows_beyond_reach:,} rows are beyond reach of Kafka's records" if self.rows_beyond_reach else ""
        )
        return f"recomputed from {self.records_read:,} records: {self.rows_equal:,} rows are equal{beyond}"


@dataclass(frozen=True)
class RecomputedTable:
    """What `--deep` did with one of the pipeline's tables."""

    table: str  # as the pipeline file names it
    role: str  # target, history or route
    participant: str  # its name
    rows_equal: int = 0
    rows_beyond_reach: int = 0
    not_recomputed: str | None = None  # why it could not be computed; None: it was

    def __str__(self) -> str:
        if self.not_recomputed is not None:
            return f"{self.table} was not recomputed: {self.not_recomputed}"
        beyond = f"; {self.rows_beyond_reach:,} are beyond reach" if self.rows_beyond_reach else ""
        return f"{self.table} was recomputed: {self.rows_equal:,} rows are equal{beyond}"


@dataclass(frozen=True)
class AuditReport:
    pipeline: str
    batches: int = 0  # of all generations that the ledger or the target's log still has
    commits_verified: int = 0  # batches whose commit is still in the log, and was compared
    records: int = 0  # that the batches of these commits read, as the commits say
    findings: tuple[Finding, ...] = ()
    on_record: tuple[str, ...] = ()  # what people decided: these are no findings, but they are reported
    recomputed: Recomputed | None = field(default=None)  # the target; None: not asked for, or not possible
    tables: tuple[RecomputedTable, ...] = ()  # with `--deep`: the target, and the tables of rows beside it
    generation: int | None = None  # the ledger's when the audit began; None: the ledger is damaged
    committed_through: int = -1  # the last committed batch then
    looks: Proofs = field(default_factory=dict)  # what it has seen of each table

    def to_json(self) -> JsonObject:
        return asdict(self)

    def lines(self, not_recorded: str | None) -> Iterator[str]:
        """The report for people. Findings may name keys of rows.

        Args:
            not_recorded: why the ledger does not keep what was seen; None: it does.
        """
        yield (
            f"{self.pipeline}: {self.batches} batches, {self.commits_verified} commits compared, "
            f"{self.records:,} records, {len(self.findings) or 'no'} findings"
        )
        if self.recomputed:
            yield f"  {self.recomputed}"
        yield from (f"  {table}" for table in self.tables if table.role != "target" or table.not_recomputed)
        yield from (f"  on record: {loss}" for loss in self.on_record)
        yield from (f"  {finding}" for finding in self.findings)
        if not_recorded is not None:
            yield f"  the ledger does not keep what this audit has seen: {not_recorded}"
