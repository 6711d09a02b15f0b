"""What Kafka holds: topic and cluster ids, first and last stable offsets. Metadata only, no records."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from include.protocol.errors import RetryableError, TerminalError
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import TopicPartition as TP

TIMEOUT_SECONDS = 30.0


def source_extent(bootstrap_servers: str, topics: Sequence[str]) -> SourceExtent:
    """What Kafka holds of `topics` now, ends being last stable offsets (KIP-98): nothing beyond them is decided.

    Raises:
        RetryableError: Kafka does not answer. TerminalError: a topic does not exist.
    """
    admin = AdminClient(
        {"bootstrap.servers": bootstrap_servers, "log_level": 2, "socket.timeout.ms": int(TIMEOUT_SECONDS * 1000)}
    )
    try:
        cluster = admin.describe_cluster(request_timeout=TIMEOUT_SECONDS).result()
        futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_SECONDS)
        described = {topic: future.result() for topic, future in futures.items()}
        partitions = [TopicPartition(name, p.id) for name, topic in described.items() for p in topic.partitions]
        firsts = _offsets(admin, partitions, OffsetSpec.earliest())
        ends = _offsets(admin, partitions, OffsetSpec.latest())
    except KafkaException as error:
        raise _classed(error, bootstrap_servers, topics) from error
    return SourceExtent(
        cluster_id=cluster.cluster_id,
        topic_ids={name: str(topic.topic_id) for name, topic in described.items()},
        partitions={tp: PartitionExtent(firsts[tp], ends[tp]) for tp in firsts},
    )


def _offsets(admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TP, int]:
    futures = admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=TIMEOUT_SECONDS,
    )
    return {TP(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def _classed(error: KafkaException, bootstrap_servers: str, topics: Sequence[str]) -> RetryableError | TerminalError:
    reason = error.args[0]
    where = f"topics {', '.join(topics)} at {bootstrap_servers}"
    if reason.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return TerminalError(
            what="a topic does not exist",
            where=where,
            expected="every topic of the pipeline file",
            found=reason.str(),
            action="create the topic, or mend `source.topics` in the pipeline file",
        )
    return RetryableError(
        what="Kafka did not answer",
        where=where,
        expected=f"an answer within {TIMEOUT_SECONDS:.0f} s",
        found=reason.str(),
        action="check that the brokers are up and `source.bootstrap_servers` is right; the next try asks again",
    )
