"""All pipelines at a glance: what is wrong with one of them hides no other. A list of topics stands in for Kafka."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import include.monitoring.overview
from include.monitoring.overview import Overview
from include.pipeline_file import Source
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import TopicPartition
from include.sources.kafka_options import librdkafka_options
from include.sources.shared_brokers import SharedBrokers
from tests.conftest import settings_in

TOPICS = ["orders", "a" * 200 + "!"]


class Brokers(SharedBrokers):
    def extent(self, source: Source) -> SourceExtent:
        librdkafka_options(source)
        topics = list(source.topics) or [topic for topic in TOPICS if source.reads(topic)]
        held = {TopicPartition(topic, 0): PartitionExtent(0, 7) for topic in topics}
        return SourceExtent("cluster", {topic: f"id of {topic}" for topic in topics}, held)


def pipeline_file(folder: Path, name: str, **source: object) -> None:
    reads = {"bootstrap_servers": "127.0.0.1:1", "schema": "id BIGINT", **source}
    data = {"name": name, "source": reads, "change": {"keys": ["id"]}, "target": {"table": f"lake://silver/{name}"}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))


def test_one_pipelines_pattern_and_one_broken_file_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(include.monitoring.overview, "SharedBrokers", Brokers)
    monkeypatch.setattr(include.monitoring.overview, "oldest_timestamp", lambda *_: None)
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pipeline_file(folder, "orders", topics=["orders"])
    pipeline_file(folder, "endless", topics_pattern="(a|aa)+")
    pipeline_file(folder, "some", topics_pattern="ord.*")
    (folder / "nowhere.yaml").symlink_to("nothing")
    overview = Overview(settings_in(tmp_path / "home", LAKEMARK_PIPELINES=str(folder)))
    overview.look()
    seen = {name: (one.lag_records, one.kafka_problem) for name, one in overview._seen.items()}
    assert (seen["orders"], seen["some"]) == ((7, None), (7, None))
    assert {name: sorted(one.extents or {}) for name, one in overview._seen.items()} == {
        "orders": [TopicPartition("orders", 0)],
        "some": [TopicPartition("orders", 0)],
        "endless": [],
    }
    assert "cannot be matched in a reasonable time" in (seen["endless"][1] or "")
    assert [error.where for error in overview.broken] == [f"{folder / 'nowhere.yaml'}, field file"]


def test_a_connection_that_nobody_knows_is_the_problem_of_its_own_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(include.monitoring.overview, "SharedBrokers", Brokers)
    monkeypatch.setattr(include.monitoring.overview, "oldest_timestamp", lambda *_: None)
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pipeline_file(folder, "orders", topics=["orders"])
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "connection": "none_such"}
    pipeline_file(folder, "guarded", topics=["orders"], security=security)
    overview = Overview(settings_in(tmp_path / "home", LAKEMARK_PIPELINES=str(folder)))
    overview.look()
    seen = overview._seen
    assert (seen["orders"].lag_records, seen["orders"].kafka_problem) == (7, None)
    assert seen["guarded"].lag_records is None
    assert "the Airflow connection none_such is not known: none. What to do: add it" in str(
        seen["guarded"].kafka_problem
    )


def test_the_oldest_record_is_asked_for_again_when_another_partition_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(include.monitoring.overview, "SharedBrokers", Brokers)
    monkeypatch.setattr(include.monitoring.overview, "oldest_timestamp", lambda _, ranges: asked.append(ranges))
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pipeline_file(folder, "orders", topics=["orders"])
    overview = Overview(settings_in(tmp_path / "home", LAKEMARK_PIPELINES=str(folder)))
    for _ in range(2):
        overview.look()
    assert len(asked) == 1
    seen = overview._seen["orders"]
    include.monitoring.overview._with_extents(seen, {TopicPartition("orders", 1): PartitionExtent(0, 7)})
    assert len(asked) == 2


def test_everything_says_when_it_was_seen_and_the_lag_follows_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(include.monitoring.overview, "SharedBrokers", Brokers)
    monkeypatch.setattr(include.monitoring.overview, "oldest_timestamp", lambda *_: 1.0)
    folder = tmp_path / "pipelines"
    folder.mkdir()
    pipeline_file(folder, "orders", topics=["orders"])
    overview = Overview(settings_in(tmp_path / "home", LAKEMARK_PIPELINES=str(folder)))
    began = time.time()
    overview.look()
    seen = overview._seen["orders"]
    assert seen.quarantine is not None
    times = (seen.ledger_at, seen.kafka_at, seen.quarantine.at)
    assert all(at is not None and began <= at <= time.time() for at in times)
    assert (seen.quarantine.waiting, seen.quarantine.ever) == (0, 0)
    assert (seen.lag_records, seen.lag_seconds(now=11.0)) == (7, 10.0)
    # A newer ledger and an older answer of Kafka's: the lag is what both say together.
    assert seen.digest is not None
    later = replace(seen, digest=replace(seen.digest, next_offsets={TopicPartition("orders", 0): 7}))
    assert (later.lag_records, later.lag_seconds(now=11.0)) == (0, 0.0)
