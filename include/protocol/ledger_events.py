"""The events of a pipeline's life, as the ledger keeps them.

Pure. `ledger_rows` makes rows of events, and `ledger_fold` makes a state of them. `include.lake.ledger` reads and
writes the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import FORM, Batch
from include.protocol.counts import BatchCounts
from include.protocol.first_offsets import FirstOffsets
from include.protocol.json_data import JsonMapping
from include.protocol.participants import Positions
from include.protocol.proofs import PipelineAudited, Proofs
from include.protocol.ranges import OffsetRange, TopicPartition
from include.protocol.sinks import Sinks, SinkTold

FIRST_GENERATION = 1
LOSS = "loss"  # origin of a generation that begins because the ledger and the target were lost
EARLIEST = "earliest"  # origin of a generation that reads everything again
PROMOTION = "backfill "  # the origin goes on with the backfill's number
CHECKPOINT = "checkpoint "  # a restore's origin goes on with the checkpoint's name
CLONE = "clone of "  # the same of a pipeline that begins with another one's savepoint: PIPELINE/SAVEPOINT
CUT_OVER = "cut over to "  # a clone's rows take the place of all: its name, the savepoint of them, the checkpoint's
SAVEPOINT = "savepoint "  # the same with the savepoint's name and that of its checkpoint
COMMITTED = "committed"  # origin of one that reads on after the last committed batch
UPGRADE = "upgrade"  # origin of a generation that begins because its batches have a newer form
REBUILT = ("commit metadata", "rows")  # origins of the generation that a rebuild begins


@dataclass(frozen=True)
class GenerationStarted:
    """The start of a generation after the first one. The one before it is fenced in the target (I5).

    Only this event and batches move offsets. This one moves them back, to read again, or forward over ranges that a
    person has given up. It is recorded after the fence has landed.
    """

    generation: int
    start_offsets: Mapping[TopicPartition, int]  # in every known partition
    topic_ids: Mapping[str, str]
    cluster_id: str | None
    origin: str  # where the offsets come from: "committed", "earliest", "batch 7", "commit metadata", "rows", "archive"
    reason: str  # as a person gave it
    started_by: str
    target_version: int | None = None  # the target's when the generation before was fenced; with a promotion's rows
    recreated: tuple[str, ...] = ()  # topics that were re-created since the generation before, or whose cluster changed
    skipped: tuple[OffsetRange, ...] = ()  # no batch will ever read these: a deliberate, audited loss
    table_id: str | None = None  # the target's; None: an older Lakemark recorded this
    positions: Positions | None = None  # where the other tables must stand; None: as they are
    # The target's version that a RESTORE by hand had gone back to before, or that this generation itself goes back to.
    restored_to: int | None = None
    form: int = FORM  # of its batches, see `Batch`
    first: FirstOffsets | None = None  # of a clone: where the reading of its rows began, in the other pipeline
    # The rules that its rows were made by, if the pipeline file was to be written so: its first batch asks. None: any.
    rules: str | None = None
    # What sinks get of the rows that it brings back, or of the records that it reads again: `skip`, nothing; `refuse`,
    # nothing until a person decides. None: what changes.
    deliver: str | None = None
    told: Mapping[TopicPartition, int] = field(default_factory=dict)  # with `skip`: the records before were read before

    @property
    def goes_on(self) -> bool:
        """Whether it reads on where the one before it stood."""
        return self.origin in (COMMITTED, UPGRADE)

    @property
    def is_promotion(self) -> bool:
        """Whether a backfill's table took the target's place: all rows were replaced."""
        return self.origin.startswith(PROMOTION)

    @property
    def is_restore(self) -> bool:
        """Whether the tables went back to a checkpoint or a savepoint, all together; or began with another one's."""
        return self.origin.startswith((CHECKPOINT, SAVEPOINT, CLONE, CUT_OVER))

    @property
    def is_clone(self) -> bool:
        """Whether the tables began as another pipeline's savepoint."""
        return self.origin.startswith(CLONE)

    @property
    def is_cut_over(self) -> bool:
        """Whether the rows of another pipeline took the place of all rows, in all tables."""
        return self.origin.startswith(CUT_OVER)

    @property
    def replaces_rows(self) -> bool:
        """Whether other rows took the place of all that the target held."""
        return self.is_promotion or self.is_cut_over

    @property
    def restored(self) -> str | None:
        """The name of the checkpoint that the tables went back to; None: this is no restore."""
        return self.origin.rpartition(" ")[2] if self.is_restore else None

    @property
    def savepoint(self) -> str | None:
        """The savepoint that the tables got their rows from; None: this is no restore of one."""
        found = self.origin.startswith((SAVEPOINT, CUT_OVER))
        return self.origin.split(" ")[-2] if found else None

    @property
    def cut_over_to(self) -> str | None:
        """The pipeline whose rows took the place of this one's; None: none has."""
        return self.origin.removeprefix(CUT_OVER).split(" ")[0] if self.is_cut_over else None

    @property
    def brings_rows(self) -> bool:
        """Whether the fence in the target brought all of its rows anew."""
        return self.is_promotion or self.is_restore

    @property
    def makes_target(self) -> bool:
        """Whether there was no target to fence when it began. Its first batch makes one."""
        return self.origin == LOSS or (self.origin == UPGRADE and self.table_id is None)


@dataclass(frozen=True)
class TopicsStarted:
    """Where reading begins in topics that were not read before, in all of their partitions, also in empty ones.

    It is recorded before the first batch. Otherwise "earliest" would mean what Kafka still holds when a partition is
    first planned, and "latest" would move with every look (I7).
    """

    generation: int
    next_batch_id: int  # the first batch that may read them
    start_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str


@dataclass(frozen=True)
class BatchPlanned:
    batch: Batch
    # Where all other tables stood when it was planned; it is landed on top of that. None of its attempts had begun yet.
    stands_on: Positions = field(default_factory=dict)
    left: int | None = None  # records that the source held beyond it, at most; None: a Lakemark from before planned it


@dataclass(frozen=True)
class AttemptStarted:
    generation: int
    batch_id: int
    attempt_id: str
    host: str
    started_by: str  # "cli", or "airflow" and the task try's path in Airflow's UI


@dataclass(frozen=True)
class AttemptEnded:
    """The end of an attempt, as the attempt itself reports it. One that was killed leaves no such event."""

    generation: int
    batch_id: int
    attempt_id: str
    outcome: str  # "applied", "already_applied", or an error's class name
    phase_seconds: Mapping[str, float] = field(default_factory=dict)  # read, decode, merge
    problem: str | None = None  # what failed, and what to do
    engines: Mapping[str, str] = field(default_factory=dict)  # by table: what has written it, and why


@dataclass(frozen=True)
class Rollback:
    """What somebody did to the target between two batches: rows are gone, and markers are not."""

    version: int  # of the RESTORE, or of the batch that landed in another table
    back_to: int | None = None  # the version that was restored, if the log says so
    other_table: str | None = None  # id of the table that earlier batches had landed in, if this is another one


@dataclass(frozen=True)
class BatchCommitted:
    """What the target's log says about a batch. Settle records it."""

    generation: int
    batch_id: int
    fingerprint: str
    table_version: int | None  # None when the log no longer has the commit
    committed_at: str | None  # ISO 8601, UTC
    attempt_id: str | None  # the attempt that made the commit
    counts: BatchCounts | None  # None: the log no longer has the commit, or its numbers do not add up
    quarantine_version: int | None = None  # None when the batch quarantined nothing
    settle_seconds: float | None = None
    attempt_seconds: float | None = None  # how long its attempt took; None: the attempt did not report
    table_id: str | None = None  # Delta's id of the target; another table in its place has another id
    quality: JsonMapping | None = None  # the quality suite's verdict; None: there is no suite
    positions: Positions | None = None  # of all other tables after the batch; None: the commit does not say it
    rollback: Rollback | None = None  # of the target, between the batch before and this one

    @property
    def target_version(self) -> int | None:
        return self.table_version


@dataclass(frozen=True)
class LedgerSnapshot:
    """What all events until now add up to. Planning and settling read from the newest snapshot on, so that a pipeline's
    thousandth day costs what its first day did. It says nothing new: a fold of all events checks it.
    """

    batch: Batch  # the last batch, which is committed
    commit: BatchCommitted
    next_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str | None
    proofs: Proofs = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()  # see `TablesLeftOut`
    sinks: Sinks = field(default_factory=dict)
    told: Mapping[TopicPartition, int] = field(default_factory=dict)  # see `LedgerState`
    maintained_at: str | None = None  # see `LedgerState`


@dataclass(frozen=True)
class BackfillPlanned:
    backfill: Backfill


@dataclass(frozen=True)
class BackfillEnded:
    """The end of a backfill. Only the table's log says which of its chunks have landed."""

    number: int
    outcome: BackfillOutcome
    ended_by: str


@dataclass(frozen=True)
class TablesLeftOut:
    """A backfill's chunk is about to land, and the pipeline file leaves out tables that live batches have written. From
    now on they lack its changes: no position tells of a chunk."""

    generation: int  # the live pipeline's
    chunk: str  # in words
    tables: tuple[str, ...]


TurnOver = Literal["planning", "files"]


@dataclass(frozen=True)
class TurnTaken:
    """Who works long on the pipeline's tables has a turn.

    Over planning: nothing is planned until it ends. Small batches would be faster every time, and such work would never
    land. Nothing but fairness depends on it. Over files: who removes files of old versions has one, and who takes up an
    old version; so neither looks while the other one acts.
    """

    generation: int
    holder: str  # for people
    until: str | None  # ISO 8601, UTC: when it ends by itself, unless it is taken again; None: it has ended
    over: TurnOver = "planning"


@dataclass(frozen=True)
class PipelineMoved:
    """The pipeline lives in one lake from here on. Its ledger in any other lake takes no event any more, so nothing is
    planned or tried there."""

    generation: int
    lake: str  # the id in that lake's mark: one lake may have several addresses
    to: str  # its URI when the pipeline moved, for people


@dataclass(frozen=True)
class MaintenanceEnded:
    """Maintenance has done what was due. It moves nothing, so it may follow any event."""

    generation: int
    ended_at: str  # ISO 8601, UTC
    started_by: str


Event = (
    GenerationStarted
    | TopicsStarted
    | BatchPlanned
    | AttemptStarted
    | AttemptEnded
    | BatchCommitted
    | LedgerSnapshot
    | BackfillPlanned
    | BackfillEnded
    | TablesLeftOut
    | TurnTaken
    | PipelineMoved
    | PipelineAudited
    | MaintenanceEnded
    | SinkTold
)
