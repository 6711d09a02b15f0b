"""All pipelines at a glance, kept up to date in the background while somebody looks.

Ledgers are read when they have changed. Kafka is asked once for all pipelines of the same brokers. The first look at
500 pipelines takes seconds: until its end callers get what is known so far.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from include.lake.uri import LakeUri
from include.monitoring.ledger_digest import LedgerDigest
from include.monitoring.ledger_reader import LedgerReader
from include.pipeline_file import Pipeline, load_pipelines, pipeline_files
from include.pipeline_file.loading import changed_at
from include.pipeline_file.tables import Tables
from include.protocol.errors import LakemarkError, PipelineFileError, TerminalError
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import OffsetRange, TopicPartition
from include.settings import Settings
from include.sources.kafka import ClientKey, KafkaSource, client_key
from include.sources.kafka_records import oldest_timestamp

log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0  # from the end of a look to the next one
_WATCHED_SECONDS = 30.0  # without a request for this time, the looking ends
_KAFKA_TIMEOUT_SECONDS = 5.0
_KAFKA_AGAIN_SECONDS = 30.0  # brokers that did not answer are left alone for this time


@dataclass(frozen=True)
class Seen:
    """A pipeline as it was seen last; None for what has not been seen yet, or cannot be."""

    pipeline: Pipeline
    digest: LedgerDigest | None = None
    problem: str | None = None  # why the ledger cannot be read
    extents: Mapping[TopicPartition, PartitionExtent] | None = None  # what Kafka holds
    kafka_problem: str | None = None
    waiting: tuple[OffsetRange, ...] = ()  # what is not in the table
    oldest_waiting: float | None = None  # timestamp of its first record, in seconds since 1970

    @property
    def lag_records(self) -> int | None:
        """How many offsets no committed batch has read."""
        known = self.extents is not None and self.digest is not None and self.kafka_problem is None
        return sum(r.width for r in self.waiting) if known else None

    def lag_seconds(self, now: float) -> float | None:
        """Age of the oldest record that waits, 0 if none does."""
        if self.lag_records is None:
            return None
        return max(0.0, now - self.oldest_waiting) if self.oldest_waiting is not None else 0.0


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
        self._brokers: dict[ClientKey, _Brokers] = {}

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

    def reader(self, pipeline: Pipeline) -> LedgerReader:
        """A reader for pages of the pipeline's ledger. The background thread has its own, for the digest."""
        return LedgerReader(Tables.of(self._settings, pipeline).ledger)

    @property
    def broken(self) -> Sequence[PipelineFileError]:
        """What is wrong with the other files."""
        return self._broken

    def look(self) -> None:
        """Looks at everything once."""
        self._read_files()
        for name in list(self._seen):
            self._seen[name] = self._with_ledger(self._seen[name])
        groups: dict[ClientKey, list[str]] = {}
        for name, seen in self._seen.items():
            groups.setdefault(client_key(seen.pipeline.source), []).append(name)
        for connection, names in groups.items():
            self._ask_kafka(connection, names)

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
        ledger = Tables.of(self._settings, seen.pipeline).ledger
        reader = self._readers.setdefault(ledger, LedgerReader(ledger))
        try:
            return replace(seen, digest=reader.digest(), problem=None)
        except LakemarkError as error:
            return replace(seen, digest=None, problem=str(error))

    def _ask_kafka(self, connection: ClientKey, names: list[str]) -> None:
        source = self._seen[names[0]].pipeline.source
        brokers = self._brokers.setdefault(connection, _Brokers())
        if brokers.problem is not None and time.monotonic() - brokers.asked_at < _KAFKA_AGAIN_SECONDS:
            return
        brokers.asked_at = time.monotonic()
        wanted: dict[str, list[str]] = {}
        try:
            client = brokers.client = brokers.client or KafkaSource(source)
            for name in names:
                try:
                    wanted[name] = client.topics(self._seen[name].pipeline.source, _KAFKA_TIMEOUT_SECONDS)
                except TerminalError as error:  # of this pipeline's pattern
                    self._seen[name] = _without_kafka(self._seen[name], error)
            topics = sorted({topic for topics in wanted.values() for topic in topics})
            held = client.partitions(topics, _KAFKA_TIMEOUT_SECONDS)
            brokers.problem = None
        except LakemarkError as error:
            brokers.problem = f"{error.what}: {error.found}"
            brokers.client = None  # the next one has the login as it is then
            for name in names:
                self._seen[name] = _without_kafka(self._seen[name], error)
            return
        for name, own in wanted.items():
            self._seen[name] = _with_extents(self._seen[name], {tp: held[tp] for tp in held if tp.topic in {*own}})


@dataclass
class _Brokers:
    """Brokers that pipelines share, and how they answered last."""

    client: KafkaSource | None = None
    problem: str | None = None
    asked_at: float = 0.0


def _without_kafka(seen: Seen, error: LakemarkError) -> Seen:
    return replace(seen, extents=None, kafka_problem=f"{error.what}: {error.found}")


def _with_extents(seen: Seen, extents: Mapping[TopicPartition, PartitionExtent]) -> Seen:
    """Args: extents: what Kafka holds of the pipeline's topics."""
    source = seen.pipeline.source
    missing = sorted(set(source.topics) - {tp.topic for tp in extents})
    problem = f"there is no topic {', '.join(missing)}" if missing else None
    waiting = tuple(_waiting(seen, extents))
    oldest = seen.oldest_waiting
    if not waiting:
        oldest = None
    elif [r.start_offset for r in waiting] != [r.start_offset for r in seen.waiting]:
        try:
            oldest = oldest_timestamp(seen.pipeline.source, waiting)
        except LakemarkError as error:
            oldest, problem = None, f"{error.what}: {error.found}"
    return replace(seen, extents=extents, kafka_problem=problem, waiting=waiting, oldest_waiting=oldest)


def _waiting(seen: Seen, extents: Mapping[TopicPartition, PartitionExtent]) -> Iterable[OffsetRange]:
    """The ranges that Kafka holds and no committed batch has read."""
    committed = seen.digest.committed_offsets if seen.digest else {}
    latest = seen.pipeline.source.start == "latest"
    for tp, extent in sorted(extents.items()):
        # A partition that no batch has begun waits from its first record on; with `start: latest` it does not wait yet.
        start = committed.get(tp, extent.end_offset if latest else extent.log_start_offset)
        if start < extent.end_offset:
            yield OffsetRange(*tp, max(start, extent.log_start_offset), extent.end_offset)
