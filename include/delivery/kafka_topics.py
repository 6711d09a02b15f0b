"""The topics that a sink in Kafka needs, and the rights of who delivers."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from include.delivery.sink_topic import SinkTopic
from include.delivery.trouble import unreachable
from include.protocol.errors import TerminalError
from include.sources.kafka_options import librdkafka_options

_SECONDS = 30.0
_LOOK_SECONDS = 0.2  # between two looks whether a topic is deleted at last
_LIMITS = ("retention.ms", "retention.bytes")  # of a topic whose old records are deleted; -1: none
_OF_PROGRESS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}


class Lacking(NamedTuple):
    """What a sink lacks at Kafka."""

    topics: list[NewTopic]  # that are not there
    anew: list[NewTopic]  # to delete and make again after that: a progress in a topic whose records are gone


def lacking(topic: SinkTopic) -> Lacking:
    """What is not there. A sink whose topic is new has got nothing. Raises RetryableError: Kafka does not answer."""
    try:
        there = _admin(topic).list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise unreachable(topic.where, error.args[0].str()) from error
    wanted = [
        NewTopic(topic.topic, num_partitions=-1, replication_factor=-1),  # as the broker's defaults say
        NewTopic(topic.progress_topic, num_partitions=1, replication_factor=-1, config=_OF_PROGRESS),
    ]
    gone = [one for one in wanted if one.topic not in there]
    return Lacking(gone, [one for one in wanted if one not in gone] if topic.topic not in there else [])


def make(topic: SinkTopic, wanted: Lacking) -> None:
    """Makes what is lacking. Raises RetryableError: Kafka does not answer, or refuses."""
    admin = _admin(topic)  # it must live until it has answered
    try:
        for one in wanted.topics:
            _made(admin, one, is_late=True)
        for one in wanted.anew:
            admin.delete_topics([one.topic], operation_timeout=_SECONDS)[one.topic].result()
            deadline = time.monotonic() + _SECONDS
            while not _made(admin, one, is_late=time.monotonic() > deadline):
                time.sleep(_LOOK_SECONDS)
    except KafkaException as error:
        raise unreachable(topic.where, error.args[0].str()) from error


def verify_keeps(topic: SinkTopic) -> None:
    """Checks that the topic of progress keeps its newest record for good.

    Raises:
        TerminalError: it does not. KafkaException: Kafka does not answer, or does not say it to this user.
    """
    admin = _admin(topic)  # it must live until it has answered
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.progress_topic)
    [asked] = admin.describe_configs([resource], request_timeout=_SECONDS).values()
    found = {name: entry.value for name, entry in asked.result().items()}
    forgets = {name: value for name, value in found.items() if name in _LIMITS and value != "-1"}
    if "delete" in str(found["cleanup.policy"]) and forgets:
        name, sink = topic.pipeline, topic.name
        told = ", ".join(f"{key} {value}" for key, value in forgets.items())
        raise TerminalError(
            what="the topic of a sink's progress would forget it, and all would be delivered again",
            where=f"{topic.where}, topic {topic.progress_topic}",
            expected="cleanup.policy=compact",
            found=f"cleanup.policy={found['cleanup.policy']}, {told}; and it holds no progress now",
            action=f"run `{_tool('kafka-configs.sh', topic)} --alter --topic {topic.progress_topic} "
            "--add-config cleanup.policy=compact`. If the sink has never got anything, that is all. If it has, "
            f"`lakemark sinks skip {name} {sink} --all --reason ...` goes on with what comes",
        )


def _made(admin: AdminClient, wanted: NewTopic, is_late: bool) -> bool:
    """Makes one topic. False: one of that name is still being deleted. Args: is_late: that takes too long."""
    [made] = admin.create_topics([wanted], operation_timeout=_SECONDS).values()
    try:
        made.result()
    except KafkaException as error:
        if is_late or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def as_commands(topic: SinkTopic, wanted: Lacking) -> list[str]:
    """The same for an administrator, by Kafka's own tool."""
    tool = _tool("kafka-topics.sh", topic)

    def create(one: NewTopic) -> str:
        partitions = f" --partitions {one.num_partitions}" if one.num_partitions > 0 else ""
        config = "".join(f" --config {name}={value}" for name, value in (one.config or {}).items())
        return f"{tool} --create --topic {one.topic}{partitions}{config}"

    again = [line for one in wanted.anew for line in (f"{tool} --delete --topic {one.topic}", create(one))]
    return [*map(create, wanted.topics), *again]


def rights(topic: SinkTopic) -> list[str]:
    """The rights of who delivers, by Kafka's own tool."""
    tool = f"{_tool('kafka-acls.sh', topic)} --add --allow-principal User:WHO"
    return [
        f"{tool} --operation Write --operation Read --operation Describe --topic {topic.topic}",
        f"{tool} --operation Write --operation Read --operation Describe --operation DescribeConfigs "
        f"--topic {topic.progress_topic}",
        f"{tool} --operation Write --operation Describe --transactional-id {topic.transactional_id}",
        f"{tool} --operation Read --group {topic.transactional_id}.progress",
    ]


def _tool(name: str, topic: SinkTopic) -> str:
    return f"{name} --bootstrap-server {topic.bootstrap_servers}"


def _admin(topic: SinkTopic) -> AdminClient:
    return AdminClient({**librdkafka_options(topic), "log_level": 2})
