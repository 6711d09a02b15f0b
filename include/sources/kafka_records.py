"""Reads records from Kafka without Spark: for audits and profiles, and for the age of waiting records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from include.pipeline_file import Source
from include.protocol.ranges import OffsetRange
from include.protocol.ranges import TopicPartition as TP
from include.sources.kafka import TIMEOUT_SECONDS, kafka_error
from include.sources.kafka_options import librdkafka_options

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CHUNK, _CHUNK_SECONDS = 20_000, 0.2  # librdkafka returns this many records, or what it has after this time


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

    Reads one range after the other. A range ends at the first record beyond it, or at the partition's end.

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
    """The lowest timestamp (seconds since 1970) of the first committed records of these ranges; None if there are none.

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
                    raise kafka_error(KafkaException(KafkaError(KafkaError._TIMED_OUT)), source)
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise kafka_error(KafkaException(error), source)
            tp = _partition_of(message)
            end = waiting.pop(tp, None)
            if end is not None:
                consumer.incremental_unassign([TopicPartition(*tp)])
                if error is None and _offset_of(message) < end:
                    found.append(message.timestamp()[1] / 1000)
    finally:
        consumer.close()
    return min(found, default=None)


def _consumer(source: Source) -> Consumer:
    return Consumer(
        {
            **librdkafka_options(source),
            "log_level": 2,
            "group.id": "lakemark-audit",  # librdkafka requires one; no offsets are committed for it
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
            raise kafka_error(KafkaException(KafkaError(KafkaError._TIMED_OUT)), source)
        chunk: list[Record] = []
        ended = False
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise kafka_error(KafkaException(error), source)
                ended = True
            elif (offset := _offset_of(message)) >= r.end_offset:
                ended = True
            else:
                at = _moment(message.timestamp()[1])
                headers = _headers_of(message)
                key, value = message.key(), message.value()
                chunk.append(
                    Record(*r.topic_partition, offset=offset, timestamp=at, key=key, value=value, headers=headers)
                )
        if chunk:
            yield chunk
        if ended:
            return


def _partition_of(message: Message) -> TP:
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None, "a record, or a partition's end"
    return TP(topic, partition)


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record has one"
    return offset


def _headers_of(message: Message) -> list[dict[str, str | bytes | None]] | None:
    found = message.headers()
    if not found:
        return None
    pairs = found.items() if isinstance(found, dict) else found
    return [{"key": name, "value": value} for name, value in pairs]


def _moment(millis: int) -> datetime | None:
    """The time of a timestamp; None if it is out of range: producers may write anything, such as microseconds."""
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
