"""Watchers of many pipelines ask Kafka once for all of them, and each learns what it would have learned alone."""

from __future__ import annotations

from contextlib import suppress

import pytest

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


def test_new_topics_of_a_pattern_and_new_partitions_are_found(
    world: World, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_brokers, "TOPICS_SECONDS", 0.0)
    brokers, stem = SharedBrokers(), world.topic()
    source = world.pipeline(stem).source.model_copy(update={"topics": (), "topics_pattern": f"{stem}.*"})
    assert at_last(brokers, source) == source_extent(source)
    world.create_topic(f"{stem}-more", 3)
    found = at_last(brokers, source)
    assert found == source_extent(source)
    assert len(found.partitions) == 5
    nowhere = source.model_copy(update={"topics_pattern": "no-such-topic.*"})
    with pytest.raises(TerminalError, match="no topic matches the pattern"):
        brokers.extent(nowhere)
    assert at_last(brokers, source) == found
