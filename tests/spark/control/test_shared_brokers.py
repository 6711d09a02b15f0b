"""Watchers of many pipelines ask Kafka once for all of them, and each learns what it would have learned alone."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from include.pipeline_file import Source
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.planning import SourceExtent
from include.sources import shared_brokers
from include.sources.kafka import source_extent
from include.sources.shared_brokers import SharedBrokers
from tests.support.waiting import wait_until
from tests.support.world import World, changes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each question for offsets was about. Every answer counts for no time at all."""
    questions: list[int] = []
    ask = shared_brokers.asked
    monkeypatch.setattr(shared_brokers, "asked", lambda c, ps, *rest: questions.append(len(ps)) or ask(c, ps, *rest))
    monkeypatch.setattr(shared_brokers, "ENDS_SECONDS", 0.0)
    return questions


def sources(world: World, number: int) -> list[Source]:
    return [world.pipeline(world.topic()).source for _ in range(number)]


def at_last(brokers: SharedBrokers, source: Source) -> SourceExtent:
    """What they say once the broker leads the partitions of topics that have just come."""

    def found() -> SourceExtent | None:
        with suppress(RetryableError):
            return brokers.extent(source)
        return None

    return wait_until(found, 30)


def test_each_learns_what_it_would_have_learned_alone(world: World, asked: list[int]) -> None:
    brokers, [one, other] = SharedBrokers(), sources(world, 2)
    for seq in range(3):
        world.produce(one.topics[0], changes(range(10), seq))
        assert at_last(brokers, one) == source_extent(one)
        assert at_last(brokers, other) == source_extent(other)


def test_within_a_second_one_question_is_enough_for_all(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, all_of_them = SharedBrokers(), sources(world, 3)
    for source in all_of_them:
        at_last(brokers, source)
    asked.clear()
    brokers.extent(all_of_them[0])
    monkeypatch.setattr(shared_brokers, "ENDS_SECONDS", 60.0)
    for source in all_of_them:
        brokers.extent(source)
    assert asked == [6]  # two partitions of each


def test_a_topic_that_is_gone_is_told_to_its_own_watcher_only(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_brokers, "TOPICS_SECONDS", 0.0)
    brokers, [ill, well] = SharedBrokers(), sources(world, 2)
    before, _ = at_last(brokers, ill), at_last(brokers, well)
    topic = ill.topics[0]
    world.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in world.admin.list_topics(timeout=10).topics)
    for _ in range(2):
        with pytest.raises(TerminalError, match="a topic does not exist"):
            brokers.extent(ill)
        assert at_last(brokers, well) == source_extent(well)
    world.create_topic(topic, 2)
    found = at_last(brokers, ill)
    assert found == source_extent(ill)
    assert found.topic_ids != before.topic_ids


def test_a_topic_that_was_made_again_is_noticed_at_once(world: World, asked: list[int]) -> None:
    """Though topics are described every five minutes only."""
    brokers, [source] = SharedBrokers(), sources(world, 1)
    topic = source.topics[0]
    world.produce(topic, changes(range(10), 1))
    before = at_last(brokers, source)
    world.admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in world.admin.list_topics(timeout=10).topics)
    world.create_topic(topic, 3)
    wait_until(lambda: at_last(brokers, source).topic_ids != before.topic_ids)
    assert at_last(brokers, source) == source_extent(source)


def test_a_topic_whose_ends_went_back_is_described_again(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made again between two questions, so that none has failed."""
    brokers, [source] = SharedBrokers(), sources(world, 1)
    world.produce(source.topics[0], changes(range(10), 1))
    at_last(brokers, source)
    empty: Future[SimpleNamespace] = Future()
    empty.set_result(SimpleNamespace(offset=0))
    described: list[str] = []
    describe = AdminClient.describe_topics
    monkeypatch.setattr(shared_brokers, "asked", lambda client, partitions, *_: dict.fromkeys(partitions, empty))
    monkeypatch.setattr(
        AdminClient,
        "describe_topics",
        lambda client, topics, **more: described.extend(topics.topic_names) or describe(client, topics, **more),
    )
    for _ in range(2):
        assert {extent.end_offset for extent in brokers.extent(source).partitions.values()} == {0}
    assert described == list(source.topics)


def test_first_offsets_are_asked_for_again_without_a_description(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_brokers, "FIRSTS_SECONDS", 0.0)
    brokers, [source] = SharedBrokers(), sources(world, 1)
    topic = source.topics[0]
    world.produce(topic, changes(range(10), 1))
    at_last(brokers, source)
    monkeypatch.setattr(AdminClient, "describe_topics", lambda *_, **__: pytest.fail("it keeps memory"))
    for gone in world.admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        gone.result()
    assert min(extent.log_start_offset for extent in brokers.extent(source).partitions.values()) == 0
    assert max(extent.log_start_offset for extent in brokers.extent(source).partitions.values()) == 3


def test_one_question_is_about_all_that_are_expected(world: World, asked: list[int]) -> None:
    all_of_them = sources(world, 3)
    for source in all_of_them:
        at_last(SharedBrokers(), source)
    brokers = SharedBrokers()
    brokers.expect(all_of_them)
    asked.clear()
    brokers.extent(all_of_them[0])
    assert asked == [6, 6]  # first offsets, and ends, of two partitions of each


def test_the_topic_that_is_not_there_is_named(world: World) -> None:
    topic = world.topic()
    source = world.pipeline(topic).source.model_copy(update={"topics": (topic, "no-such-topic")})
    for ask in (SharedBrokers().extent, source_extent):
        with pytest.raises(TerminalError, match=r"a topic does not exist \(no-such-topic at "):
            ask(source)


def test_a_topic_of_a_pattern_that_is_gone_is_no_error(world: World, asked: list[int]) -> None:
    brokers, stem = SharedBrokers(), world.topic()
    source = world.pipeline(stem).source.model_copy(update={"topics": (), "topics_pattern": f"{stem}.*"})
    world.create_topic(f"{stem}-more", 1)
    wait_until(lambda: len(at_last(brokers, source).partitions) == 3)
    world.admin.delete_topics([f"{stem}-more"])[f"{stem}-more"].result()
    wait_until(lambda: f"{stem}-more" not in world.admin.list_topics(timeout=10).topics)
    assert wait_until(lambda: len(at_last(brokers, source).partitions) == 2)


def test_brokers_that_are_away_are_waited_for_once(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And asked by a new client then, which has the login of then."""
    all_of_them = sources(world, 3)
    for source in all_of_them:
        at_last(SharedBrokers(), source)
    make, clients = shared_brokers.admin_client, list[AdminClient]()
    monkeypatch.setattr(shared_brokers, "admin_client", lambda *given: clients.append(make(*given)) or clients[-1])
    long, short = SharedBrokers(away_seconds=600.0), SharedBrokers(away_seconds=0.0)
    for source in all_of_them:
        assert (long.extent(source), short.extent(source)) == (source_extent(source),) * 2
    away: Future[None] = Future()
    away.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    with monkeypatch.context() as silent:
        questions: list[int] = []
        silent.setattr(
            shared_brokers, "asked", lambda _, partitions, *__: questions.append(1) or dict.fromkeys(partitions, away)
        )
        for source in all_of_them:
            with pytest.raises(RetryableError, match="Kafka did not answer"):
                long.extent(source)
        assert questions == [1]
        with pytest.raises(RetryableError, match="Kafka did not answer"):
            short.extent(all_of_them[0])
    assert len(clients) == 2
    assert short.extent(all_of_them[0]) == source_extent(all_of_them[0])
    assert len(clients) == 3


def test_new_topics_of_a_pattern_and_new_partitions_are_found(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_brokers, "FIRSTS_SECONDS", 0.0)
    brokers, stem = SharedBrokers(), world.topic()
    source = world.pipeline(stem).source.model_copy(update={"topics": (), "topics_pattern": f"{stem}.*"})
    assert at_last(brokers, source) == source_extent(source)
    world.create_topic(f"{stem}-more", 3)
    found = at_last(brokers, source)
    assert found == source_extent(source)
    assert len(found.partitions) == 5
    more = NewPartitions(f"{stem}-more", 4)
    world.admin.create_partitions([more])[more.topic].result()
    wait_until(lambda: len(at_last(brokers, source).partitions) == 6)
    found = at_last(brokers, source)
    nowhere = source.model_copy(update={"topics_pattern": "no-such-topic.*"})
    with pytest.raises(TerminalError, match="no topic matches the pattern"):
        brokers.extent(nowhere)
    assert at_last(brokers, source) == found
