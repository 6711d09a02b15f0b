"""A stream whose sink is a topic of a real broker, and who reads there."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from include.delivery.creating import create, needed
from include.installation.stack import Stack
from tests.support.stream import Stream


@dataclass(frozen=True)
class Read:
    """A record, as a reader sees it."""

    partition: int
    key: str
    value: dict[str, Any] | None
    version: int  # its place: the number of the batch
    number: int


@dataclass
class Topic:
    """The topic of a stream's sink."""

    servers: str
    name: str

    def read(self, isolation: str = "read_committed") -> list[Read]:
        """All records, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = consumer.list_topics(self.name, timeout=30).topics[self.name].partitions
        consumer.assign([TopicPartition(self.name, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                ended += 1
                continue
            [(_, header)] = message.headers() or []
            _, _, batch, number = str(header, "utf-8").split("/") if isinstance(header, bytes) else header.split("/")
            key, value = message.key(), message.value()
            partition = message.partition()
            assert key is not None and partition is not None
            told = None if value is None else json.loads(value)
            found.append(Read(partition, key.decode(), told, int(batch), int(number)))
        consumer.close()
        return found

    def rows(self) -> list[tuple[int, int, str | None]]:
        """What a reader has who keeps the last record of each key."""
        newest: dict[str, dict[str, Any] | None] = {}
        for record in self.read():
            newest[record.key] = record.value
        return sorted((row["id"], row["seq"], row["name"]) for row in newest.values() if row is not None)


def stream_of(folder: Path, stack: Stack, patch: pytest.MonkeyPatch, **more: Any) -> tuple[Stream, Topic]:
    topic = Topic(stack.broker.bootstrap_servers, f"out-{uuid.uuid4().hex[:10]}")
    place = {"bootstrap_servers": topic.servers, "topic": topic.name, "transaction_seconds": 30}
    found = Stream.of(folder, patch, app={"kafka": place, "begin": "start", **more})
    create(found.coordinator.pipeline, "app", needed(found.coordinator.pipeline, "app"))
    return found, topic
