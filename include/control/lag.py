"""How much of a pipeline's data waits in Kafka. Watchers ask every second, so nothing is read twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from include.lake.ledger import Ledger
from include.lake.stores import log_store_of
from include.participants.catalog import Catalog
from include.participants.heads import mends_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.data_watch import Waiting
from include.protocol.errors import TerminalError, is_terminal
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent, start_topics
from include.protocol.ranges import OffsetRange
from include.settings import Settings
from include.sources.kafka import source_extent
from include.sources.kafka_records import oldest_timestamp
from include.sources.shared_brokers import SharedBrokers

_COARSE_NS = 1_000_000_000
_QUIET_SECONDS = 10.0  # between two looks at logs while nothing happens
Times = tuple[int | None, ...]  # of the ledger and the tables before the point; None: there is no such table


def waiting_records(state: LedgerState, source: SourceExtent) -> int:
    """How many offsets Kafka holds that no committed batch has read."""
    committed = state.committed_offsets
    return sum(max(0, extent.end_offset - committed.get(tp, 0)) for tp, extent in source.partitions.items())


@dataclass(frozen=True)
class Lag:
    """What is not in the table yet."""

    records: int  # offsets that no committed batch has read
    seconds: float  # age of the oldest of them, by its timestamp; 0 when there is none

    @classmethod
    def of(cls, pipeline: Pipeline, state: LedgerState) -> Self:
        """The lag now.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: a topic is gone.
        """
        source = source_extent(pipeline.source)
        started = start_topics(state, source, pipeline.source.start)
        state = state.with_started(started) if started else state
        committed = state.committed_offsets
        ranges = [
            OffsetRange(*tp, max(committed.get(tp, 0), extent.log_start_offset), extent.end_offset)
            for tp, extent in source.partitions.items()
            if max(committed.get(tp, 0), extent.log_start_offset) < extent.end_offset
        ]
        oldest = oldest_timestamp(pipeline.source, ranges)
        return cls(waiting_records(state, source), max(0.0, time.time() - oldest) if oldest is not None else 0.0)


_brokers = SharedBrokers()  # of this process


@dataclass
class Lookout:
    """Watches one pipeline: shares its Kafka client with the others of this process, and reads the ledger and the
    tables before the point only when their logs have changed."""

    settings: Settings
    pipeline: Pipeline
    _read_at: Times | None = field(init=False, default=None)  # when the logs had changed that were read
    _states: Sequence[LedgerState] = field(init=False, default=())  # of the halves
    _mends: bool = field(init=False, default=False)  # a table waits for a repair
    _problem: str | None = field(init=False, default=None)  # that only a person can fix, as those logs say
    _quiet: tuple[SourceExtent, float, Waiting] | None = field(init=False, default=None)  # a look that found nothing

    def __post_init__(self) -> None:
        self._halves = self.pipeline.halves
        self._ledgers = [Ledger(Tables.of(self.settings, half).ledger) for half in self._halves]
        self._before = [log_store_of(p.uri(self.settings)) for half in self._halves for p in Catalog.of(half).before]

    def look(self) -> Waiting:
        """What waits now. A repair is urgent, since readers see what it takes back. So is a problem that only a person
        can fix: the run that it starts fails and reports it.

        While nothing waits and Kafka has nothing new, it looks at the logs every few seconds only.

        Raises:
            RetryableError: Kafka does not answer.
        """
        try:
            source = _brokers.extent(self.pipeline.source)
        except TerminalError as error:
            return _told(str(error))
        now = time.monotonic()
        if self._quiet is not None and self._quiet[0] == source and now - self._quiet[1] < _QUIET_SECONDS:
            return self._quiet[2]
        found = self._look_at_logs(source)
        self._quiet = None if found.records or found.unmerged or found.urgent else (source, now, found)
        return found

    def _look_at_logs(self, source: SourceExtent) -> Waiting:
        try:
            life = tuple(ledger.changed_at() for ledger in self._ledgers)
            changes = (*life, *(log.changed_at() for log in self._before))
            if changes != self._read_at:
                self._read()
                # File times are coarse: a file this young may change again and keep its time.
                settled = all(at is None or time.time_ns() - at > _COARSE_NS for at in changes)
                self._read_at = changes if settled else None
            if self._problem is not None:
                return _told(self._problem)
        except TerminalError as error:
            return _told(str(error))
        reads, merged = self._states[0], self._states[-1]  # the half that reads Kafka, and the one that merges
        records = waiting_records(reads, source)
        return Waiting(
            records=records,
            progress=tuple((half.generation, half.committed_through) for half in self._states),
            life=life,
            urgent=self._mends or start_topics(reads, source, self.pipeline.source.start) is not None,
            unmerged=max(0, waiting_records(merged, source) - records),
            problem=next(filter(None, map(_waits_for_a_person, self._states)), None),
        )

    def _read(self) -> None:
        try:
            self._states, self._problem = [ledger.recent() for ledger in self._ledgers], None
            halves = zip(self._halves, self._states, strict=True)
            self._mends = any(mends_of(self.settings, half, state) for half, state in halves)
        except TerminalError as error:
            self._problem = str(error)


def _told(problem: str) -> Waiting:
    """What a look finds that only meets a problem. The run that it starts fails, and tells people."""
    return Waiting(0, None, problem, urgent=True, problem=problem)


def _waits_for_a_person(state: LedgerState) -> str | None:
    """Why the batch that is planned cannot land until a person has acted, as its last attempt has found."""
    attempt = state.pending.last_attempt if state.pending else None
    return attempt.problem if attempt is not None and is_terminal(attempt.outcome) else None
