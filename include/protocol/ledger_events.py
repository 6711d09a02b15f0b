"""The events of a pipeline's life, as the ledger keeps them.

Pure. `ledger_rows` makes rows of events, and `ledger_fold` makes a state of them. `include.lake.ledger` reads and
writes the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from include.protocol.backfill import Backfill, BackfillOutcome
from include.protocol.batch import Batch
from include.protocol.counts import BatchCounts
from include.protocol.json_data import JsonMapping
from include.protocol.ranges import OffsetRange, TopicPartition

FIRST_GENERATION = 1
REBUILT = ("commit metadata", "rows")  # origins of the generations that a ledger which was made anew begins with


@dataclass(frozen=True)
class GenerationStarted:
    """The start of a generation after the first one; the one before it is fenced in the target (I5).

    The only event that moves offsets otherwise than a batch does: back, to read again, or forward over ranges that a
    person has given up. Recorded after the fence has landed.
    """

    generation: int
    start_offsets: Mapping[TopicPartition, int]  # of every partition that is known
    topic_ids: Mapping[str, str]
    cluster_id: str | None
    origin: str  # where the offsets come from: "committed", "earliest", "batch 7", "commit metadata", "rows", "archive"
    reason: str  # a person's
    started_by: str
    target_version: int | None = None  # of the target when the generation before was fenced
    recreated: tuple[str, ...] = ()  # topics that are others now than the generation before read
    skipped: tuple[OffsetRange, ...] = ()  # what no batch will ever read: the deliberate, audited loss


@dataclass(frozen=True)
class TopicsStarted:
    """Where reading begins in topics that were not read before: every partition of them, the empty ones too.

    Written down before the first batch, or "the first record" would be whatever Kafka still holds when a partition's
    turn comes, and "the latest" would move on with every look (I7).
    """

    generation: int
    next_batch_id: int  # the first batch that it matters to
    start_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str


@dataclass(frozen=True)
class BatchPlanned:
    batch: Batch


@dataclass(frozen=True)
class AttemptStarted:
    generation: int
    batch_id: int
    attempt_id: str
    host: str
    started_by: str  # "cli", or "airflow" and the task try's path in Airflow's UI


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt that could still speak. One that was killed leaves no such event."""

    generation: int
    batch_id: int
    attempt_id: str
    outcome: str  # "applied", "already_applied", or an error's class name
    phase_seconds: Mapping[str, float] = field(default_factory=dict)  # read, decode, merge
    problem: str | None = None  # what went wrong, and what to do


@dataclass(frozen=True)
class BatchCommitted:
    """What the target's log says of a batch; written by settle."""

    generation: int
    batch_id: int
    fingerprint: str
    table_version: int | None  # None when the log no longer has the commit
    committed_at: str | None  # ISO 8601, UTC
    attempt_id: str | None  # the attempt whose commit it is
    counts: BatchCounts | None  # None: the log no longer has the commit, or its numbers do not add up
    quarantine_version: int | None = None  # None when the batch quarantined nothing
    settle_seconds: float | None = None
    attempt_seconds: float | None = None  # that its attempt took; None: it did not live to tell
    table_id: str | None = None  # Delta's id of the target, by which another table in its place is noticed
    quality: JsonMapping | None = None  # the quality suite's verdict; None: there is no suite


@dataclass(frozen=True)
class LedgerSnapshot:
    """What all events until now add up to, for whoever plans or settles: they read on from here, so that a pipeline's
    thousandth day costs what its first one did. Says nothing new: a fold of all events checks it.
    """

    batch: Batch  # the last one, which is committed
    commit: BatchCommitted
    next_offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    cluster_id: str | None


@dataclass(frozen=True)
class BackfillPlanned:
    backfill: Backfill


@dataclass(frozen=True)
class BackfillEnded:
    """The last word on a backfill. Which of its chunks have landed says the table's log alone."""

    number: int
    outcome: BackfillOutcome
    ended_by: str


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
)
