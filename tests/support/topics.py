"""A broker's topics, and what a test has sent to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Sent:
    """A record as Kafka has it."""

    topic: str
    partition: int
    offset: int
    value: Any


@dataclass
class Topics:
    bootstrap_servers: str
    sent: list[Sent] = field(default_factory=list)
    login: Mapping[str, str] = field(default_factory=dict)  # what librdkafka needs beside the address

    def topic(self, partitions: int = 2, **config: str) -> str:
        name = f"t-{uuid.uuid4().hex[:10]}"
        self.create_topic(name, partitions, **config)
        return name

    def create_topic(self, name: str, partitions: int, **config: str) -> None:
        topic = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
        self.admin.create_topics([topic])[name].result()
        wait_until(lambda: self.leaders_of(name) == partitions)

    def recreate_topic(self, name: str, partitions: int) -> None:
        self.admin.delete_topics([name])[name].result()
        wait_until(lambda: name not in self.admin.list_topics(timeout=10).topics)
        self.create_topic(name, partitions)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Deletes records, as retention does."""
        for future in self.admin.delete_records([KafkaPartition(topic, partition, offset)]).values():
            future.result()

    def leaders_of(self, name: str) -> int:
        topic = self.admin.list_topics(name, timeout=10).topics[name]
        return sum(p.leader >= 0 for p in topic.partitions.values()) if topic.error is None else 0

    @cached_property  # kept: a client that is collected takes its unanswered calls with it
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **self.login})

    def produce(
        self,
        topic: str,
        values: Iterable[Any],
        partitions: int = 2,
        transaction: str | None = None,
        keys: Iterable[Any] = (),
        headers: list[tuple[str, bytes]] | None = None,
    ) -> list[Sent]:
        """Sends values, with Kafka keys if any are given (dicts become JSON; bytes and None go as they are); a key's
        changes share a partition."""
        options = {"transactional.id": transaction} if transaction else {}
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **self.login, **options})
        if transaction:
            producer.init_transactions()
            producer.begin_transaction()
        sent: list[Sent] = []
        for n, (value, key) in enumerate(zip_longest(values, keys)):
            raw = _raw(value)
            has_number = isinstance(value, dict) and isinstance(value.get("id"), int)
            partition = (value["id"] if has_number else n) % partitions

            def delivered(error: object, message: Any, value: Any = value) -> None:
                assert error is None, error
                sent.append(Sent(topic, message.partition(), message.offset(), value))

            producer.produce(topic, raw, _raw(key), partition=partition, on_delivery=delivered, headers=headers)
        if transaction == "aborted":
            producer.flush()
            producer.abort_transaction()
            return []
        if transaction:
            producer.commit_transaction()
        producer.flush()
        self.sent += sent
        return sent

    @contextmanager
    def open_transaction(self, topic: str, values: Iterable[Any], commit: bool = False) -> Iterator[None]:
        """Sends values in a transaction that stays open for a while, and is aborted then unless told otherwise."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "transactional.id": uuid.uuid4().hex}
        )
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, json.dumps(value).encode(), partition=0)
        producer.flush()
        try:
            yield
        finally:
            producer.commit_transaction() if commit else producer.abort_transaction()


def _raw(part: Any) -> bytes | None:
    return json.dumps(part).encode() if isinstance(part, dict) else part
