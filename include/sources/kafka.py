"""What Kafka holds: topic and cluster ids, first and last stable offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from datetime import datetime

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from include.outside import asking
from include.pipeline_file import Source
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import TopicPartition as TP
from include.sources.kafka_options import librdkafka_options

TIMEOUT_SECONDS = 30.0


ClientKey = Hashable  # what sources at the same brokers have in common


def client_key(source: Source) -> ClientKey:
    """Two sources may share a client if this is the same for both. It names a connection of Airflow, but not its
    login."""
    return source.bootstrap_servers, source.security


class KafkaSource:
    """A client that asks the brokers of one source what they hold. It can be kept and used again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # Errors that the client reports on the side, such as a refused login. The call itself only times out.
        self._said: deque[KafkaError] = deque(maxlen=10)
        self._admin = admin_client(source, self._said, TIMEOUT_SECONDS)

    def extent(self) -> SourceExtent:
        """What Kafka holds of the topics now. Ends are last stable offsets (KIP-98): beyond them nothing is decided.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: a topic does not exist, or none matches the pattern.
        """
        admin = self._admin
        self._said.clear()
        try:
            with self._asking():
                topics = TopicCollection(list(self._source.topics) or self._matching(TIMEOUT_SECONDS))
                cluster = admin.describe_cluster(request_timeout=TIMEOUT_SECONDS)
                futures = admin.describe_topics(topics, request_timeout=TIMEOUT_SECONDS)
                described = {topic: _described(future, self._source, topic) for topic, future in futures.items()}
                firsts, ends = _firsts_and_ends(admin, described, TIMEOUT_SECONDS)
                cluster_id = cluster.result().cluster_id
        except KafkaException as error:
            admin.poll(0.1)  # serves error_cb
            raise kafka_error(error, self._source, self._said) from error
        return SourceExtent(
            cluster_id=cluster_id,
            topic_ids={name: str(topic.topic_id) for name, topic in described.items()},
            partitions=extents(firsts, ends),
        )

    def _asking(self) -> AbstractContextManager[None]:
        return asking(f"Kafka at {self._source.bootstrap_servers}")

    def _matching(self, timeout_seconds: float) -> list[str]:
        found = sorted(filter(self._source.reads, self._admin.list_topics(timeout=timeout_seconds).topics))
        if not found:
            raise no_topic_matches(self._source)
        return found

    def offsets_at(self, extent: SourceExtent, moment: datetime) -> dict[TP, int]:
        """The first offset of every partition whose timestamp is `moment` or later, by Kafka's time index; the end
        offset where there is none.

        Raises: as `extent`.
        """
        partitions = [TopicPartition(*tp) for tp in extent.partitions]
        spec = OffsetSpec.for_timestamp(int(moment.timestamp() * 1000))
        try:
            with self._asking():
                found = _answered(asked(self._admin, partitions, spec, TIMEOUT_SECONDS))
        except KafkaException as error:
            raise kafka_error(error, self._source, self._said) from error
        return {tp: offset if offset >= 0 else extent.partitions[tp].end_offset for tp, offset in found.items()}


def verify_answers(source: Source, seconds: float) -> None:
    """Checks that a broker answers at all, for those who do not want to wait.

    Raises:
        RetryableError: none does within the time. TerminalError: it refuses the login.
    """
    said: deque[KafkaError] = deque(maxlen=10)
    admin = AdminClient({**librdkafka_options(source), "log_level": 0, "error_cb": said.append})
    try:
        admin.describe_cluster(request_timeout=seconds).result(seconds)
    except (KafkaException, TimeoutError) as error:
        admin.poll(0.1)  # serves error_cb
        cause = error if isinstance(error, KafkaException) else KafkaException(KafkaError(KafkaError._TIMED_OUT))
        raise kafka_error(cause, source, said, seconds) from error


def admin_client(source: Source, said: deque[KafkaError], timeout_seconds: float) -> AdminClient:
    """A client of a source's brokers. Args: said: gets the errors that it reports on the side."""
    options: JsonObject = {  # confluent-kafka's own type for them leaves out callbacks
        **librdkafka_options(source),
        "socket.timeout.ms": int(timeout_seconds * 1000),
        "log_level": 2,
        "error_cb": said.append,
    }
    return AdminClient(options)


def no_topic_matches(source: Source) -> TerminalError:
    return TerminalError(
        what="no topic matches the pattern",
        where=f"{source.topics_pattern} at {source.bootstrap_servers}",
        expected="at least one topic with such a name that this login may see",
        found="none",
        action="create the topic, or fix `source.topics_pattern` in the pipeline file",
    )


def source_extent(source: Source) -> SourceExtent:
    """What Kafka holds of a source, asked once: see `KafkaSource.extent`."""
    return KafkaSource(source).extent()


def _described(future: Future, source: Source, topic: str) -> TopicDescription:
    try:
        return future.result()
    except KafkaException as error:
        raise topic_error(error, source, topic) from error


def topic_error(error: KafkaException, source: Source, topic: str) -> KafkaException | TerminalError:
    """Lakemark's error if Kafka does not know a topic of a source; else Kafka's own."""
    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return error
    return _no_such_topic(f"{topic} at {source.bootstrap_servers}", error.args[0])


def _no_such_topic(where: str, reason: KafkaError) -> TerminalError:
    return TerminalError(
        what="a topic does not exist",
        where=where,
        expected="every topic of the pipeline file",
        found=reason.str(),
        action="create the topic, or fix `source.topics` in the pipeline file",
    )


def _firsts_and_ends(
    admin: AdminClient, described: Mapping[str, TopicDescription], timeout_seconds: float
) -> tuple[dict[TP, int], dict[TP, int]]:
    """The first and the end offsets of all partitions; both requests run at the same time."""
    partitions = partitions_of(described.values())
    both = [asked(admin, partitions, spec, timeout_seconds) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]
    firsts, ends = map(_answered, both)
    return firsts, ends


def partitions_of(described: Iterable[TopicDescription]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, p.id) for topic in described for p in topic.partitions]


def extents(firsts: Mapping[TP, int], ends: Mapping[TP, int]) -> dict[TP, PartitionExtent]:
    """What Kafka holds of every partition. Retention may move a partition's start beyond the end that was read a moment
    before. Then the partition is empty."""
    return {tp: PartitionExtent(first, max(first, ends[tp])) for tp, first in firsts.items()}


def asked(
    admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec, timeout_seconds: float
) -> dict[TopicPartition, Future]:
    """Asks for offsets. Beyond the last stable ones nothing is decided (KIP-98)."""
    return admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=timeout_seconds,
    )


def _answered(futures: Mapping[TopicPartition, Future]) -> dict[TP, int]:
    return {TP(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def kafka_error(
    error: KafkaException, source: Source, said: Iterable[KafkaError] = (), seconds: float = TIMEOUT_SECONDS
) -> RetryableError | TerminalError:
    """Lakemark's error for a client's error.

    Args:
        said: errors that the client reported on the side. seconds: how long it was waited for.
    """
    refused = [other for other in said if other.code() == KafkaError._AUTHENTICATION]
    reason = refused[0] if refused else error.args[0]
    where = f"{source.topics_in_words} at {source.bootstrap_servers}"
    if reason.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return _no_such_topic(where, reason)
    if reason.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return TerminalError(
            what="Kafka refused the login",
            where=where,
            expected="a login that the brokers accept",
            found=reason.str(),
            action="check `source.security` in the pipeline file, and the variables or the connection that it names",
        )
    return RetryableError(
        what="Kafka did not answer",
        where=where,
        expected=f"an answer within {seconds:.0f} s",
        found=reason.str(),
        action="check that the brokers are up and `source.bootstrap_servers` is right; the next try asks again",
    )
