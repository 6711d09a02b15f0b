"""What Kafka holds: topic and cluster ids, first and last stable offsets; and records, for those who check the job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from include.pipeline_file import Source
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import OffsetRange
from include.protocol.ranges import TopicPartition as TP
from include.sources.kafka_options import librdkafka_options

TIMEOUT_SECONDS = 30.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHUNK, _CHUNK_SECONDS = 20_000, 0.2  # librdkafka hands over so many records, or what it has after so long


class KafkaSource:
    """A client that asks the brokers of one source what they hold; may be kept and asked again and again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        # What calls that time out do not tell: a login that was refused, say.
        self._said: deque[KafkaError] = deque(maxlen=10)
        options = {"socket.timeout.ms": int(TIMEOUT_SECONDS * 1000), "log_level": 2, "error_cb": self._said.append}
        self._admin = AdminClient({**librdkafka_options(source), **options})

    def extent(self) -> SourceExtent:
        """What Kafka holds of the topics now, ends being last stable offsets (KIP-98): nothing beyond them is decided.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: a topic does not exist, or none matches the pattern.
        """
        admin = self._admin
        self._said.clear()
        try:
            topics = TopicCollection(list(self._source.topics) or self._matching(TIMEOUT_SECONDS))
            cluster = admin.describe_cluster(request_timeout=TIMEOUT_SECONDS)
            futures = admin.describe_topics(topics, request_timeout=TIMEOUT_SECONDS)
            described = {topic: future.result() for topic, future in futures.items()}
            firsts, ends = _firsts_and_ends(admin, described, TIMEOUT_SECONDS)
            cluster_id = cluster.result().cluster_id
        except KafkaException as error:
            admin.poll(0.1)  # serves error_cb
            raise _classed(error, self._source, self._said) from error
        return SourceExtent(
            cluster_id=cluster_id,
            topic_ids={name: str(topic.topic_id) for name, topic in described.items()},
            partitions=_extents(firsts, ends),
        )

    def partitions(self, topics: Sequence[str], timeout_seconds: float) -> dict[TP, PartitionExtent]:
        """What Kafka holds of these topics, also of other pipelines' at the same brokers; those that do not exist are
        left out.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: it does not let us in.
        """
        self._said.clear()
        try:
            futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_seconds)
            described = {name: topic for name, future in futures.items() if (topic := _existing(future)) is not None}
            firsts, ends = _firsts_and_ends(self._admin, described, timeout_seconds)
        except KafkaException as error:
            self._admin.poll(0.1)
            raise _classed(error, self._source, self._said) from error
        return _extents(firsts, ends)

    def topics(self, source: Source, timeout_seconds: float) -> list[str]:
        """Those of a source at these brokers, as its file names them, or by its pattern. Raises: as `partitions`."""
        if source.topics_pattern is None:
            return list(source.topics)
        self._said.clear()
        try:
            return _topics_of(self._admin, source, timeout_seconds)
        except KafkaException as error:
            self._admin.poll(0.1)
            raise _classed(error, source, self._said) from error

    def _matching(self, timeout_seconds: float) -> list[str]:
        found = _topics_of(self._admin, self._source, timeout_seconds)
        if not found:
            raise TerminalError(
                what="no topic matches the pattern",
                where=f"{self._source.topics_pattern} at {self._source.bootstrap_servers}",
                expected="at least one topic of such a name, which this login may see",
                found="none",
                action="create the topic, or mend `source.topics_pattern` in the pipeline file",
            )
        return found

    def offsets_at(self, extent: SourceExtent, moment: datetime) -> dict[TP, int]:
        """By Kafka's time index: the first offset of every partition whose timestamp is `moment` or later; the end
        offset where there is none.

        Raises: as `extent`.
        """
        partitions = [TopicPartition(*tp) for tp in extent.partitions]
        spec = OffsetSpec.for_timestamp(int(moment.timestamp() * 1000))
        try:
            found = _answered(_asked(self._admin, partitions, spec, TIMEOUT_SECONDS))
        except KafkaException as error:
            raise _classed(error, self._source, self._said) from error
        return {tp: offset if offset >= 0 else extent.partitions[tp].end_offset for tp, offset in found.items()}


def source_extent(source: Source) -> SourceExtent:
    """What Kafka holds of a source, asked once: see `KafkaSource.extent`."""
    return KafkaSource(source).extent()


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None  # UTC; None: beyond the years 1 to 9999
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, str | bytes | None]] | None  # key and value of each; None: there are none


RECORD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def records_of(source: Source, ranges: Sequence[OffsetRange]) -> Iterator[list[Record]]:
    """The committed records of ranges, in chunks.

    One range after the other; a range ends with the first record beyond it, or with the partition's end.

    Raises:
        RetryableError: Kafka stops answering.
    """
    consumer = _consumer(source)
    try:
        for r in ranges:
            consumer.assign([TopicPartition(*r.topic_partition, r.start_offset)])
            yield from _range_records(consumer, r, source)
    finally:
        consumer.close()


def oldest_timestamp(source: Source, ranges: Sequence[OffsetRange]) -> float | None:
    """The lowest timestamp (seconds since 1970) among the first committed records of these ranges; None without any.

    Raises:
        RetryableError: Kafka stops answering.
    """
    waiting = {TP(r.topic, r.partition): r.end_offset for r in ranges}
    found: list[float] = []
    consumer = _consumer(source)
    try:
        consumer.assign([TopicPartition(*r.topic_partition, r.start_offset) for r in ranges])
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while waiting:
            message = consumer.poll(_CHUNK_SECONDS)
            if message is None:
                if time.monotonic() > deadline:
                    raise _classed(KafkaException(KafkaError(KafkaError._TIMED_OUT)), source)
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise _classed(KafkaException(error), source)
            tp = TP(message.topic(), message.partition())
            end = waiting.pop(tp, None)
            if end is not None:
                consumer.incremental_unassign([TopicPartition(*tp)])
                if error is None and message.offset() < end:
                    found.append(message.timestamp()[1] / 1000)
    finally:
        consumer.close()
    return min(found, default=None)


def _consumer(source: Source) -> Consumer:
    return Consumer(
        {
            **librdkafka_options(source),
            "log_level": 2,
            "group.id": "lakemark-audit",  # librdkafka wants one; nothing is committed to it
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )


def _range_records(consumer: Consumer, r: OffsetRange, source: Source) -> Iterator[list[Record]]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        messages = consumer.consume(_CHUNK, _CHUNK_SECONDS)
        if messages:
            deadline = time.monotonic() + TIMEOUT_SECONDS
        elif time.monotonic() > deadline:
            raise _classed(KafkaException(KafkaError(KafkaError._TIMED_OUT)), source)
        chunk: list[Record] = []
        ended = False
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise _classed(KafkaException(error), source)
                ended = True
            elif message.offset() >= r.end_offset:
                ended = True
            else:
                at = _moment(message.timestamp()[1])
                headers = [{"key": name, "value": value} for name, value in message.headers() or ()] or None
                chunk.append(Record(*r.topic_partition, message.offset(), at, message.key(), message.value(), headers))
        if chunk:
            yield chunk
        if ended:
            return


def _moment(millis: int) -> datetime | None:
    """Producers write what they like: microseconds, say."""
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def _topics_of(admin: AdminClient, source: Source, timeout_seconds: float) -> list[str]:
    return sorted(filter(source.reads, admin.list_topics(timeout=timeout_seconds).topics))


def _existing(described: Future) -> TopicDescription | None:
    try:
        return described.result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def _firsts_and_ends(
    admin: AdminClient, described: Mapping[str, TopicDescription], timeout_seconds: float
) -> tuple[dict[TP, int], dict[TP, int]]:
    """Of all partitions; both questions are under way at once."""
    partitions = [TopicPartition(name, p.id) for name, topic in described.items() for p in topic.partitions]
    both = [_asked(admin, partitions, spec, timeout_seconds) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]
    firsts, ends = map(_answered, both)
    return firsts, ends


def _extents(firsts: Mapping[TP, int], ends: Mapping[TP, int]) -> dict[TP, PartitionExtent]:
    """Retention may move a partition's start beyond the end that was told a moment before: then nothing is there."""
    return {tp: PartitionExtent(first, max(first, ends[tp])) for tp, first in firsts.items()}


def _asked(
    admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec, timeout_seconds: float
) -> dict[TopicPartition, Future]:
    return admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=timeout_seconds,
    )


def _answered(futures: Mapping[TopicPartition, Future]) -> dict[TP, int]:
    return {TP(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def _classed(error: KafkaException, source: Source, said: Iterable[KafkaError] = ()) -> RetryableError | TerminalError:
    refused = [other for other in said if other.code() == KafkaError._AUTHENTICATION]
    reason = refused[0] if refused else error.args[0]
    where = f"{source.topics_in_words} at {source.bootstrap_servers}"
    if reason.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return TerminalError(
            what="a topic does not exist",
            where=where,
            expected="every topic of the pipeline file",
            found=reason.str(),
            action="create the topic, or mend `source.topics` in the pipeline file",
        )
    if reason.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return TerminalError(
            what="Kafka does not let us in",
            where=where,
            expected="a login that the brokers accept",
            found=reason.str(),
            action="check `source.security` in the pipeline file and the variables of the environment that it names",
        )
    return RetryableError(
        what="Kafka did not answer",
        where=where,
        expected=f"an answer within {TIMEOUT_SECONDS:.0f} s",
        found=reason.str(),
        action="check that the brokers are up and `source.bootstrap_servers` is right; the next try asks again",
    )
