"""How much of a pipeline's data waits in Kafka. Watchers ask every second, so nothing is read twice."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Self

from include.lake.ledger import Ledger
from include.lake.stores import log_store_of
from include.participants.catalog import Catalog
from include.participants.heads import mends_of
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.data_watch import Waiting
from include.protocol.errors import TerminalError
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
    _state: LedgerState = field(init=False, default_factory=LedgerState)
    _mends: bool = field(init=False, default=False)  # a table waits for a repair
    _problem: str | None = field(init=False, default=None)  # that only a person can fix, as those logs say
    _quiet: tuple[SourceExtent, float, Waiting] | None = field(init=False, default=None)  # a look that found nothing

    def __post_init__(self) -> None:
        self._ledger = Ledger(Tables.of(self.settings, self.pipeline).ledger)
        self._before = [log_store_of(p.uri(self.settings)) for p in Catalog.of(self.pipeline).before]

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
            return Waiting(0, None, str(error), urgent=True)
        now = time.monotonic()
        if self._quiet is not None and self._quiet[0] == source and now - self._quiet[1] < _QUIET_SECONDS:
            return self._quiet[2]
        found = self._look_at_logs(source)
        self._quiet = None if found.records or found.urgent else (source, now, found)
        return found

    def _look_at_logs(self, source: SourceExtent) -> Waiting:
        try:
            changed_at = self._ledger.changed_at()
            changes = (changed_at, *(log.changed_at() for log in self._before))
            if changes != self._read_at:
                self._read()
                # File times are coarse: a file this young may change again and keep its time.
                settled = all(at is None or time.time_ns() - at > _COARSE_NS for at in changes)
                self._read_at = changes if settled else None
            if self._problem is not None:
                return Waiting(0, None, self._problem, urgent=True)
        except TerminalError as error:
            return Waiting(0, None, str(error), urgent=True)
        state = self._state
        return Waiting(
            records=waiting_records(state, source),
            progress=(state.generation, state.committed_through),
            life=changed_at,
            urgent=self._mends or start_topics(state, source, self.pipeline.source.start) is not None,
        )

    def _read(self) -> None:
        try:
            self._state, self._problem = self._ledger.recent(), None
            self._mends = bool(mends_of(self.settings, self.pipeline, self._state))
        except TerminalError as error:
            self._problem = str(error)
