"""A topic of Kafka as a sink: records and progress in one transaction.

The transactional id never changes. So whoever takes the sink fences every delivery before it, and the broker aborts
what that one had open; only then is the progress read, as far as transactions have ended. Readers that are not
read_committed see the records of aborted transactions.

Source: KIP-98, "Exactly Once Delivery and Transactional Messaging"; librdkafka, "Transactional Producer".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from include.delivery.contract import Delivery
from include.delivery.kafka_progress import OF_PROGRESS, has_records, newest
from include.delivery.kafka_topics import verify_keeps
from include.delivery.sink_topic import SinkTopic
from include.delivery.trouble import outcome_unknown, overtaken, refuses, unreachable, unreadable
from include.fault_points import fault_point
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.protocol.progress import Progress
from include.sources.kafka_options import librdkafka_options

_BY_KEY = -1  # the partition of a record: its key chooses it
_HEADER = "lakemark"  # of a record: PIPELINE/GENERATION/BATCH/NUMBER
_SECONDS = 30.0  # for an answer
_BYTES_MAX = 1_000_000_000  # of a record, to the client: the topic's own limit counts
_FULL_SECONDS = 0.05  # between two tries while the client holds as many records as it may
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_NO_RIGHT = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_UNFIT = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG)


@dataclass
class KafkaSink:
    """See `WriteAheadSink`."""

    topic: SinkTopic
    producer: Producer = field(repr=False)
    _stands: Progress | None = None
    _failed: list[KafkaError] = field(default_factory=list, repr=False)

    @classmethod
    def taken(cls, topic: SinkTopic) -> KafkaSink:
        """The sink, taken from whoever had it.

        Raises:
            RetryableError: Kafka does not answer. TerminalError: it refuses the login, or lacks a topic.
        """
        milliseconds = topic.transaction_seconds * 1000
        options: JsonObject = {
            **librdkafka_options(topic),
            "transactional.id": topic.transactional_id,
            "transaction.timeout.ms": milliseconds,
            "message.timeout.ms": milliseconds,
            "acks": "all",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "message.max.bytes": _BYTES_MAX,
            "partitioner": "murmur2_random",  # as Java's own clients place a key
            "delivery.report.only.error": True,
            "log_level": 2,
        }
        with _errors_of(topic):
            found = cls(topic, Producer(options))
            found.producer.init_transactions(_SECONDS)
        fault_point("sink.taken")
        return found

    def progress(self) -> Progress | None:
        with _errors_of(self.topic):
            self._stands = newest(self.topic)
            if self._stands is None:
                verify_keeps(self.topic)
                if self.topic.guarantee == "exactly_once" and has_records(self.topic):
                    found = f"records in {self.topic.topic}, and no progress of this sink in"
                    raise unreadable(self.topic.where, f"{found} {self.topic.progress_topic}")
        return self._stands

    def deliver(self, delivery: Delivery) -> int:
        if delivery.after != self._stands:
            raise overtaken(self.topic.where, delivery.after, self._stands)
        with _errors_of(self.topic):
            match self.topic.guarantee:
                case "exactly_once":
                    with self._transaction():
                        changed = self._send(delivery)
                        self._send_progress(delivery.now)
                case "at_least_once":
                    with self._transaction():
                        changed = self._send(delivery)
                    with self._transaction():
                        self._send_progress(delivery.now)
                case "at_most_once":
                    with self._transaction():
                        self._send_progress(delivery.now)
                    with self._transaction():
                        changed = self._send(delivery)
        self._stands = delivery.now
        return changed

    def close(self) -> None:
        """An open transaction is aborted by whoever takes the sink next, or after its time."""
        self.producer.purge()
        with suppress(KafkaException):
            self.producer.close(timeout=1.0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._failed.clear()
        self.producer.begin_transaction()
        try:
            yield
            self.producer.flush(self.topic.transaction_seconds)
            self._verify_sent()
        except BaseException as error:
            with suppress(KafkaException):
                self.producer.abort_transaction(_SECONDS)
            self.producer.poll(0)
            if isinstance(error, KafkaException):  # of what came after a record that was refused
                self._verify_sent()
            raise
        fault_point("sink.written")
        self._commit()
        fault_point("sink.committed")

    def _commit(self) -> None:
        try:
            self.producer.commit_transaction(_SECONDS)
        except KafkaException as error:
            told: KafkaError = error.args[0]
            if told.txn_requires_abort():
                with suppress(KafkaException):
                    self.producer.abort_transaction(_SECONDS)
                raise
            if told.code() in _FENCED:
                raise
            raise outcome_unknown(self.topic.where, told.str()) from error

    def _send(self, delivery: Delivery) -> int:
        """Sends the records of rows that were written, then those of rows that were removed. Returns how many."""
        if (changes := delivery.changes) is None:
            return 0
        progress, number = delivery.now, 0
        of = f"{self.topic.pipeline}/{progress.generation}/{progress.batch_id}/"
        written, removed = [self.topic.key, self.topic.value], [self.topic.key, self.topic.value_of_removed]
        topic, produce, reported = self.topic.topic, self.producer.produce, self._reported
        for batch in _one_ahead(chain(changes.rows(written), changes.keys(removed))):
            places = [[(_HEADER, f"{of}{place}")] for place in range(number, number + batch.num_rows)]
            number += batch.num_rows
            for key, value, headers in zip(*(column.to_pylist() for column in batch.columns), places, strict=True):
                try:
                    produce(topic, value, key, _BY_KEY, headers=headers, on_delivery=reported)
                except BufferError:
                    self._wait_for_room()
                    self._produce(topic, value, key, headers=headers)
        return number

    def _send_progress(self, now: Progress) -> None:
        told = {**now.to_json(), "published_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        own = f"{self.topic.pipeline}/{self.topic.name}"
        # To the partition that is read, however many the topic has.
        self._produce(self.topic.progress_topic, json.dumps(told), own, headers=[], partition=OF_PROGRESS)

    def _produce(
        self, topic: str, value: str | None, key: str, headers: list[tuple[str, str]], partition: int = _BY_KEY
    ) -> None:
        try:
            self.producer.produce(topic, value, key, partition, headers=headers, on_delivery=self._reported)
        except BufferError:
            self._wait_for_room()
            self._produce(topic, value, key, headers=headers, partition=partition)

    def _wait_for_room(self) -> None:
        """The client holds as many records as it may: the broker is slower than what sends them."""
        self.producer.poll(_FULL_SECONDS)
        self._verify_sent()

    def _verify_sent(self) -> None:
        """Raises KafkaException: a record was refused. Those beside it are only purged, and may be told first."""
        if self._failed:
            raise KafkaException(next((e for e in self._failed if e.code() not in _PURGED), self._failed[0]))

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)


def _one_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same; the next one is made while the caller works on one."""
    with ThreadPoolExecutor(1) as maker:
        coming = maker.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = maker.submit(next, batches, None)
            yield batch


@contextmanager
def _errors_of(topic: SinkTopic) -> Iterator[None]:
    """What Kafka says, as Lakemark's errors."""
    create = f"`lakemark sinks create {topic.pipeline} {topic.name}` prints what makes it; with --run it makes it"
    try:
        yield
    except LakemarkError:
        raise
    except KafkaException as error:
        told: KafkaError = error.args[0]
        if told.code() in _FENCED:
            raise overtaken(topic.where, None, None) from error
        if told.code() in _NOT_THERE:
            raise refuses(topic.where, told.str(), f"make the topics: {create}") from error
        if told.code() in _NO_RIGHT:
            raise refuses(topic.where, told.str(), f"grant the right: {create}") from error
        if told.code() in _UNFIT:
            action = (
                "raise the topic's max.message.bytes, or deliver fewer columns; or leave this delivery out: "
                f"`lakemark sinks skip {topic.pipeline} {topic.name} --reason ...`"
            )
            raise refuses(topic.where, told.str(), action) from error
        raise unreachable(topic.where, told.str()) from error
