"""All pipelines at a glance, kept up to date in the background while somebody looks.

Ledgers are read when they have changed. Kafka is asked once for all pipelines of the same brokers. The first look at
500 pipelines takes seconds: until its end callers get what is known so far. Everything says when it was seen.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.monitoring.ledger_digest import LedgerDigest
from include.monitoring.ledger_pages import LedgerPages
from include.monitoring.ledger_reader import LedgerReader
from include.pipeline_file import Pipeline, load_pipelines, pipeline_files
from include.pipeline_file.loading import changed_at
from include.pipeline_file.tables import Tables
from include.protocol.errors import LakemarkError, PipelineFileError
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.settings import Settings
from include.sources.kafka_records import oldest_timestamp
from include.sources.shared_brokers import SharedBrokers

Starts = tuple[tuple[str, int, int], ...]  # topic, partition, offset
log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0  # from the end of a look to the next one
_WATCHED_SECONDS = 30.0  # without a request for this time, the looking ends
_KAFKA_SECONDS = 5.0  # that Kafka's answer is waited for
_KAFKA_AGAIN_SECONDS = 30.0  # that brokers which did not answer are left alone
_COUNTING_SECONDS = 1.0  # of a look, to count quarantines
_COUNTING_SHARE = 10.0  # a pipeline's quarantine is counted again after ten times as long as it took


@dataclass(frozen=True)
class QuarantineCount:
    """What the quarantine of a pipeline holds, by record: one that was set aside twice counts once."""

    waiting: int
    ever: int
    at: float  # when it was counted
    of: tuple[object, ...]  # what it was counted from: it holds until that changes
    again_at: float  # not before


@dataclass(frozen=True)
class Seen:
    """A pipeline as it was seen last; None for what has not been seen yet, or cannot be. Times are in seconds since
    1970."""

    pipeline: Pipeline
    digest: LedgerDigest | None = None
    ledger_at: float | None = None  # when the ledger was looked at
    landing: LedgerDigest | None = None  # of its landing's ledger; None: as for `digest`, or it has none
    problem: str | None = None  # why the ledger cannot be read
    extents: Mapping[TopicPartition, PartitionExtent] | None = None  # what Kafka holds
    kafka_at: float | None = None  # when it was known
    kafka_problem: str | None = None
    oldest: tuple[Starts, float | None] = ((), None)  # where waiting ranges start; their first record's time
    quarantine: QuarantineCount | None = None

    @cached_property
    def waiting(self) -> tuple[OffsetRange, ...]:
        """The ranges that Kafka holds and no committed batch has read."""
        return tuple(_waiting(self))

    @property
    def lag_records(self) -> int | None:
        """How many offsets no committed batch has read."""
        known = self.extents is not None and self.digest is not None and self.kafka_problem is None
        return sum(r.width for r in self.waiting) if known else None

    def lag_seconds(self, now: float) -> float | None:
        """Age of the oldest record that waits, 0 if none does. Since a batch landed and until Kafka is asked again, it
        is that of a record from before."""
        if self.lag_records is None:
            return None
        _, oldest = self.oldest
        return max(0.0, now - oldest) if self.waiting and oldest is not None else 0.0


class Overview:
    """Looks at all pipelines. Many threads may ask it at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_at = 0.0
        self._seen: dict[str, Seen] = {}
        self._broken: list[PipelineFileError] = []
        self._files: list[tuple[str, int]] | None = None
        self._readers: dict[LakeUri, LedgerReader] = {}
        self._brokers = SharedBrokers(_KAFKA_SECONDS, _KAFKA_AGAIN_SECONDS)

    def pipelines(self) -> list[Seen]:
        """Every pipeline with a valid file, by name. Starts the background thread if it does not run."""
        self._asked_at = time.monotonic()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._read_files()
                self._thread = threading.Thread(target=self._keep_looking, name="lakemark-overview", daemon=True)
                self._thread.start()
        return [seen for _, seen in sorted(self._seen.items())]

    def pipeline(self, name: str) -> Seen | None:
        """One pipeline; None if there is no valid file of that name."""
        return next((seen for seen in self.pipelines() if seen.pipeline.name == name), None)

    def pages(self, seen: Seen) -> LedgerPages:
        """Pages of the pipeline's ledger, up to what was seen."""
        return LedgerPages(Tables.of(self._settings, seen.pipeline).ledger, seen.digest or LedgerDigest())

    @property
    def broken(self) -> Sequence[PipelineFileError]:
        """What is wrong with the other files."""
        return self._broken

    def look(self) -> None:
        """Looks at everything once."""
        self._read_files()
        for name in list(self._seen):
            self._seen[name] = self._with_ledger(self._seen[name])
        self._brokers.expect(seen.pipeline.source for seen in self._seen.values())
        for name in list(self._seen):
            self._seen[name] = self._with_kafka(self._seen[name])
        self._count_quarantines()

    def _keep_looking(self) -> None:
        while time.monotonic() - self._asked_at < _WATCHED_SECONDS:
            try:
                self.look()
            except Exception:  # the next look may do better, and the page says how old this one is
                log.exception("a look at the pipelines failed")
            time.sleep(_LOOK_SECONDS)

    def _read_files(self) -> None:
        """Reads the pipeline files if any has changed."""
        folder = self._settings.pipelines
        files = [(path.name, changed_at(path)) for path in pipeline_files(folder)]
        if files == self._files:
            return
        pipelines, self._broken = load_pipelines(folder, self._settings.environment)
        before = self._seen
        self._seen = {p.name: replace(before.get(p.name, Seen(p)), pipeline=p) for p in pipelines}
        self._files = files

    def _with_ledger(self, seen: Seen) -> Seen:
        landing, now = seen.pipeline.landing, time.time()
        try:
            own = self._digest(seen.pipeline)
            of_landing = None if landing is None else self._digest(landing)
            return replace(seen, digest=own, landing=of_landing, ledger_at=now, problem=None)
        except LakemarkError as error:
            return replace(seen, digest=None, landing=None, ledger_at=now, problem=str(error))

    def _digest(self, half: Pipeline) -> LedgerDigest:
        ledger = Tables.of(self._settings, half).ledger
        return self._readers.setdefault(ledger, LedgerReader(ledger)).digest()

    def _count_quarantines(self) -> None:
        """Counts what has changed, the longest known first, until the time for it is up."""
        until = time.monotonic() + _COUNTING_SECONDS
        for name, seen in sorted(
            self._seen.items(), key=lambda item: item[1].quarantine.at if item[1].quarantine else 0
        ):
            self._seen[name] = self._with_quarantine(seen)
            if time.monotonic() > until:
                return

    def _with_quarantine(self, seen: Seen) -> Seen:
        """The quarantine is counted again when the ledger or its tables have changed."""
        tables, before, now = Tables.of(self._settings, seen.pipeline), seen.quarantine, time.time()
        if seen.digest is None:
            return seen
        aside = log_store_of(tables.quarantine).changed_at()
        of = (seen.digest.sequence, aside, log_store_of(tables.resolutions).changed_at())
        if before is not None and before.of == of:
            return replace(seen, quarantine=replace(before, at=now))
        if before is not None and now < before.again_at:
            return seen
        waiting = ever = 0
        if aside is not None:
            try:
                rows = Quarantine.of(Coordinator(self._settings, seen.pipeline), with_bytes=False).summary()
            except LakemarkError as error:
                log.warning("the quarantine of %s cannot be counted: %s", seen.pipeline.name, error)
                return seen  # as it was: the page says how old that is
            waiting = sum(row["pending"] for row in rows)
            ever = waiting + sum(row["replayed"] + row["discarded"] + row["applied"] for row in rows)
        ended = time.time()
        count = QuarantineCount(waiting, ever, now, of, again_at=ended + _COUNTING_SHARE * (ended - now))
        return replace(seen, quarantine=count)

    def _with_kafka(self, seen: Seen) -> Seen:
        try:
            extents = self._brokers.extent(seen.pipeline.source).partitions
        except LakemarkError as error:
            return replace(seen, extents=None, kafka_at=time.time(), kafka_problem=_told(error))
        return _with_extents(seen, extents)


def _told(error: LakemarkError) -> str:
    return f"{error.what}: {error.found}. What to do: {error.action}"


def _with_extents(seen: Seen, extents: Mapping[TopicPartition, PartitionExtent]) -> Seen:
    """Args: extents: what Kafka holds of the pipeline's topics."""
    source = seen.pipeline.source
    found = replace(seen, extents=extents, kafka_at=time.time(), kafka_problem=None)
    if _starts(found.waiting) == found.oldest[0]:
        return found
    try:
        first = oldest_timestamp(source, found.waiting) if found.waiting else None
    except LakemarkError as error:
        return replace(found, kafka_problem=_told(error))
    return replace(found, oldest=(_starts(found.waiting), first))


def _starts(waiting: Sequence[OffsetRange]) -> Starts:
    return tuple((r.topic, r.partition, r.start_offset) for r in waiting)


def _waiting(seen: Seen) -> Iterator[OffsetRange]:
    committed = seen.digest.committed_offsets if seen.digest else {}
    latest = seen.pipeline.source.start == "latest"
    for tp, extent in sorted((seen.extents or {}).items()):
        # A partition that no batch has begun waits from its first record on; with `start: latest` it does not wait yet.
        start = committed.get(tp, extent.end_offset if latest else extent.log_start_offset)
        if start < extent.end_offset:
            yield OffsetRange(*tp, max(start, extent.log_start_offset), extent.end_offset)
