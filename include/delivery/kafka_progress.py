"""What a sink's topics hold: the progress that was committed last, and whether there is any record."""

from __future__ import annotations

import json
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from include.delivery.sink_topic import SinkTopic
from include.delivery.trouble import taken_by, unreadable
from include.protocol.json_data import JsonObject
from include.protocol.progress import Progress
from include.sources.kafka_options import librdkafka_options

OF_PROGRESS = 0  # the partition of the topic of progress that is read, however many it has
_SECONDS = 30.0  # for an answer
_FIRST_LOOK = 20  # offsets at the end of the topic of progress; a transaction's end takes one, too


def _reader(topic: SinkTopic) -> Consumer:
    """Reads what transactions have committed."""
    return Consumer(
        {
            **librdkafka_options(topic),
            "group.id": f"{topic.transactional_id}.progress",  # it commits no offsets
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "log_level": 2,
        }
    )


def has_records(topic: SinkTopic) -> bool:
    """Whether a reader finds a record in the topic. Those of transactions that were aborted are none."""
    consumer = _reader(topic)
    try:
        partitions = consumer.list_topics(topic.topic, timeout=_SECONDS).topics[topic.topic].partitions
        places = [TopicPartition(topic.topic, number, OFFSET_BEGINNING) for number in partitions]
        return any(True for _ in _committed(consumer, places))
    finally:
        consumer.close()


def newest(topic: SinkTopic) -> Progress | None:
    """The progress that was committed last. Only who has taken the sink may ask: nobody else can add any more.

    It looks at the end of the topic first, and further back if there is none: most offsets there are of transactions'
    ends."""
    consumer = _reader(topic)
    place = TopicPartition(topic.progress_topic, OF_PROGRESS)
    try:
        first, end = consumer.get_watermark_offsets(place, timeout=_SECONDS)
        look = _FIRST_LOOK
        while True:
            start = max(first, end - look)
            found = _last_from(consumer, topic, start)
            if found is not None or start == first:
                return found
            look *= 20
    finally:
        consumer.close()


def _last_from(consumer: Consumer, topic: SinkTopic, start: int) -> Progress | None:
    own, newest = f"{topic.pipeline}/{topic.name}", None
    for message in _committed(consumer, [TopicPartition(topic.progress_topic, OF_PROGRESS, start)]):
        key, value = message.key(), message.value()
        if key is None or value is None:
            continue
        if (of := key.decode(errors="replace")) != own:
            raise taken_by(topic.where, of, f"{topic.pipeline}.yaml")
        newest = message
    return None if newest is None else _progress_in(newest, topic)


def _committed(consumer: Consumer, places: list[TopicPartition]) -> Iterator[Message]:
    """The messages from these places on, up to the end of what transactions have ended."""
    consumer.assign(places)
    waiting = {place.partition for place in places}
    while waiting:
        message = consumer.poll(_SECONDS)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if (error := message.error()) is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition())
        else:
            raise KafkaException(error)


def _progress_in(message: Message, topic: SinkTopic) -> Progress:
    """Raises ProgressUnreadable."""
    try:
        told: JsonObject = json.loads(message.value() or b"")
        return Progress.from_json({name: told[name] for name in told.keys() - {"published_at"}})
    except (ValueError, TypeError, AttributeError) as error:
        place = f"offset {message.offset()} of partition {message.partition()} of {topic.progress_topic}"
        raise unreadable(topic.where, f"another record at {place}") from error
