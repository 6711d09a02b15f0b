"""What Kafka holds of the topics of many pipelines, for watchers that ask every second: one question for all of them.

Pipelines at the same brokers share a client. The first that asks in a second asks for the ends of all topics that any
of them has asked about lately. What changes seldom is asked for less often: the names of topics, their numbers of
partitions, and first offsets twice a minute; ids every five minutes, since `describe_topics` keeps some memory for each
topic and call (`docs/facts.md`). A topic that was made again under its name is noticed before that if its ends went
back, or if it has another number of partitions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from include.pipeline_file import Source
from include.protocol.errors import TerminalError
from include.protocol.planning import SourceExtent
from include.protocol.ranges import TopicPartition as TP
from include.sources.kafka import (
    ClientKey,
    admin_client,
    asked,
    client_key,
    extents,
    kafka_error,
    no_topic_matches,
    partitions_of,
    topic_error,
)

K = TypeVar("K")
T = TypeVar("T")
ENDS_SECONDS = 0.9  # that an answer about ends counts
FIRSTS_SECONDS = 30.0  # that an answer about first offsets, and about the names and sizes of all topics, counts
TOPICS_SECONDS = 300.0  # that an answer about a topic's id counts
_FORGET_SECONDS = 120.0  # after which a source that nobody asks about any more is left out


class SharedBrokers:
    """The brokers of any number of sources. Threads may use it at the same time.

    Args:
        timeout_seconds: that an answer is waited for. away_seconds: that brokers which did not answer are left alone:
            all who ask meanwhile get the same error.
    """

    def __init__(self, timeout_seconds: float = 10.0, away_seconds: float = 5.0) -> None:
        self._timeout, self._away = timeout_seconds, away_seconds
        self._clusters: dict[ClientKey, _Cluster] = {}
        self._lock = threading.Lock()

    def expect(self, sources: Iterable[Source]) -> None:
        """The next question to their brokers is about these, too: many who ask for the first time need only one."""
        now = time.monotonic()
        for source in sources:
            cluster = self._cluster_of(source)
            with cluster.lock:
                cluster.asks_for(source, now)

    def extent(self, source: Source) -> SourceExtent:
        """What Kafka holds of the source's topics, as of a second ago or less; first offsets, as of half a minute ago.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: a topic does not exist, or none matches the pattern.
        """
        cluster = self._cluster_of(source)
        try:
            with cluster.lock:
                return cluster.extent(source, time.monotonic())
        except KafkaException as error:
            raise kafka_error(error, source, cluster.said, self._timeout) from error

    def _cluster_of(self, source: Source) -> _Cluster:
        with self._lock:
            if (key := client_key(source)) not in self._clusters:
                self._clusters[key] = _Cluster(source, self._timeout, self._away)
            return self._clusters[key]


class _Cluster:
    def __init__(self, source: Source, timeout_seconds: float, away_seconds: float) -> None:
        self.lock = threading.Lock()
        self.said: deque[KafkaError] = deque(maxlen=10)
        self._any_source, self._timeout, self._away_seconds = source, timeout_seconds, away_seconds
        self._away: tuple[KafkaException, float] | None = None  # why the last question failed, and when
        self._admin: AdminClient | None = None  # none after an error: the next one has the login of then
        self._asking: dict[Hashable, tuple[Source, float]] = {}  # who has asked, by what they read, and when
        self._id = ""
        self._names: dict[str, int] | None = None  # of all topics, and how many partitions each has
        self._topics: dict[str, TopicDescription | KafkaException] = {}
        self._firsts: dict[TP, int] = {}
        self._ends: dict[TP, int] = {}
        self._topics_at = self._firsts_at = self._ends_at = float("-inf")

    def asks_for(self, source: Source, now: float) -> None:
        self._asking[source.topics, source.topics_pattern] = source, now

    def extent(self, source: Source, now: float) -> SourceExtent:
        self.asks_for(source, now)
        if self._away is not None and now - self._away[1] < self._away_seconds:
            raise self._away[0]
        try:
            if now - self._topics_at > TOPICS_SECONDS:
                self._topics, self._topics_at = {}, now
                self._asking = {key: (one, at) for key, (one, at) in self._asking.items() if now - at < _FORGET_SECONDS}
            if now - self._firsts_at > FIRSTS_SECONDS:
                self._names, self._firsts_at = None, now
                grown = [one.name for one in self._known if len(one.partitions) != self._all_names().get(one.name, 0)]
                self._topics = {name: topic for name, topic in self._topics.items() if name not in grown}
                self._firsts = self._offsets(self._known, OffsetSpec.earliest())
            names = self._topics_of(source)
            lacking = [name for name in names if not isinstance(self._topics.get(name), TopicDescription)]
            is_due = now - self._ends_at > ENDS_SECONDS
            if lacking and (is_due or not set(lacking) <= self._topics.keys()):
                self._describe({*lacking} if self._topics else self._topics_of_all())
            if is_due or lacking:
                self._ask_for_ends()
                self._ends_at = now
            if source.topics_pattern and any(isinstance(self._topics.get(name), KafkaException) for name in names):
                self._names = None  # one of them may have gone
                names = self._topics_of(source)
        except KafkaException as error:
            self._away = error, time.monotonic()
            if self._admin is not None:
                self._admin.poll(0.1)  # serves error_cb
            self._admin, self._topics_at = None, float("-inf")
            self._firsts_at = self._ends_at = float("-inf")
            raise
        return self._extent_of(source, names)

    def _all_names(self) -> Mapping[str, int]:
        """All topics' names, and how many partitions each has."""
        if self._names is None:
            topics = self._client().list_topics(timeout=self._timeout).topics
            self._names = {name: len(topics[name].partitions) for name in sorted(topics)}
        return self._names

    def _client(self) -> AdminClient:
        if self._admin is None:
            self.said.clear()
            self._admin = admin_client(self._any_source, self.said, self._timeout)
            self._id = self._admin.describe_cluster(request_timeout=self._timeout).result().cluster_id or ""
        return self._admin

    def _topics_of(self, source: Source) -> list[str]:
        if source.topics_pattern is None:
            return list(source.topics)
        found = [name for name in self._all_names() if source.reads(name)]
        if not found:
            raise no_topic_matches(source)
        return found

    def _topics_of_all(self) -> set[str]:
        found: set[str] = set()
        for source, _ in self._asking.values():
            try:
                found.update(self._topics_of(source))
            except TerminalError:  # that one's own watcher is told
                continue
        return found

    def _describe(self, names: Iterable[str]) -> None:
        client = self._client()
        futures = client.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout)
        described, failed = _answered(futures)
        self._topics |= {**described, **failed}
        self._firsts |= self._offsets(described.values(), OffsetSpec.earliest())

    def _ask_for_ends(self) -> None:
        before, self._ends = self._ends, self._offsets(self._known, OffsetSpec.latest())
        if made_again := {tp.topic for tp, end in self._ends.items() if end < before.get(tp, 0)}:
            self._describe(made_again)
            self._ends = self._offsets(self._known, OffsetSpec.latest())

    @property
    def _known(self) -> list[TopicDescription]:
        return [topic for topic in self._topics.values() if isinstance(topic, TopicDescription)]

    def _offsets(self, described: Iterable[TopicDescription], which: OffsetSpec) -> dict[TP, int]:
        partitions = partitions_of(described)
        if not partitions:
            return {}
        found, failed = _answered(asked(self._client(), partitions, which, self._timeout))
        self._topics |= {tp.topic: error for tp, error in failed.items()}  # it has just gone, or come, or moved
        return {TP(tp.topic, tp.partition): answer.offset for tp, answer in found.items()}

    def _extent_of(self, source: Source, names: Iterable[str]) -> SourceExtent:
        topics: dict[str, TopicDescription] = {}
        for name in names:
            match self._topics.get(name):
                case KafkaException() as error:
                    raise topic_error(error, source, name)
                case TopicDescription() as topic:
                    topics[name] = topic  # one that has just come to a pattern is described the next time
        held = [TP(tp.topic, tp.partition) for tp in partitions_of(topics.values())]
        return SourceExtent(
            cluster_id=self._id,
            topic_ids={name: str(topic.topic_id) for name, topic in topics.items()},
            partitions=extents({tp: self._firsts[tp] for tp in held}, self._ends),
        )


def _answered(futures: Mapping[K, Future[T]]) -> tuple[dict[K, T], dict[K, KafkaException]]:
    """The answers to a question about several topics or partitions, and the errors of the others.

    Raises:
        KafkaException: nothing was answered, and the client itself says why: it is no topic's own trouble, but that of
            the brokers, or of the login.
    """
    found: dict[K, T] = {}
    failed: dict[K, KafkaException] = {}
    for one, future in futures.items():
        try:
            found[one] = future.result()
        except KafkaException as error:
            failed[one] = error
    if failed and not found and all(_is_of_client(error) for error in failed.values()):
        raise next(iter(failed.values()))
    return found, failed


def _is_of_client(error: KafkaException) -> bool:
    """Whether no broker has said it: the codes of librdkafka's own errors are negative."""
    code = error.args[0].code()
    return code < 0 and code not in (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
