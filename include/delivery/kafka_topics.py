"""The topics that a sink in Kafka needs, and the rights of who delivers."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from include.delivery.sink_topic import SinkTopic
from include.delivery.trouble import unreachable
from include.protocol.errors import TerminalError
from include.sources.kafka_options import librdkafka_options

_SECONDS = 30.0
_LIMITS = ("retention.ms", "retention.bytes")  # of a topic whose old records are deleted; -1: none
_OF_PROGRESS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}


def missing(topic: SinkTopic) -> list[NewTopic]:
    """The topics that are not there. Raises RetryableError: Kafka does not answer."""
    try:
        there = _admin(topic).list_topics(timeout=_SECONDS).topics
    except KafkaException as error:
        raise unreachable(topic.where, error.args[0].str()) from error
    wanted = [
        NewTopic(topic.topic, num_partitions=-1, replication_factor=-1),  # as the broker's defaults say
        NewTopic(topic.progress_topic, num_partitions=1, replication_factor=-1, config=_OF_PROGRESS),
    ]
    return [one for one in wanted if one.topic not in there]


def make(topic: SinkTopic, wanted: list[NewTopic]) -> None:
    """Makes topics. Raises RetryableError: Kafka does not answer, or refuses."""
    if not wanted:
        return
    admin = _admin(topic)  # it must live until it has answered
    try:
        for made in admin.create_topics(wanted, operation_timeout=_SECONDS).values():
            made.result()
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


def as_commands(topic: SinkTopic, wanted: list[NewTopic]) -> list[str]:
    """The same for an administrator, by Kafka's own tool."""
    return [
        f"{_tool('kafka-topics.sh', topic)} --create --topic {one.topic}"
        + (f" --partitions {one.num_partitions}" if one.num_partitions > 0 else "")
        + "".join(f" --config {name}={value}" for name, value in (one.config or {}).items())
        for one in wanted
    ]


def rights(topic: SinkTopic) -> list[str]:
    """The rights of who delivers, by Kafka's own tool."""
    tool = f"{_tool('kafka-acls.sh', topic)} --add --allow-principal User:WHO"
    return [
        f"{tool} --operation Write --operation Describe --topic {topic.topic}",
        f"{tool} --operation Write --operation Read --operation Describe --operation DescribeConfigs "
        f"--topic {topic.progress_topic}",
        f"{tool} --operation Write --operation Describe --transactional-id {topic.transactional_id}",
        f"{tool} --operation Read --group {topic.transactional_id}.progress",
    ]


def _tool(name: str, topic: SinkTopic) -> str:
    return f"{name} --bootstrap-server {topic.bootstrap_servers}"


def _admin(topic: SinkTopic) -> AdminClient:
    return AdminClient({**librdkafka_options(topic), "log_level": 2})
