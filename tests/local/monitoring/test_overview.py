"""All pipelines at a glance: what is wrong with one of them hides no other. A list of topics stands in for Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import include.monitoring.overview
from include.monitoring.overview import Overview
from include.pipeline_file import Source
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import TopicPartition
from tests.conftest import settings_in

TOPICS = ["orders", "a" * 200 + "!"]


class Brokers:
    def __init__(self, source: Source) -> None:
        pass

    def topics(self, source: Source, timeout_seconds: float) -> list[str]:
        return list(source.topics) or [topic for topic in TOPICS if source.reads(topic)]

    def partitions(self, topics: Sequence[str], timeout_seconds: float) -> dict[TopicPartition, PartitionExtent]:
        return {TopicPartition(topic, 0): PartitionExtent(0, 7) for topic in topics}


def pipeline_file(folder: Path, name: str, **source: object) -> None:
    reads = {"bootstrap_servers": "127.0.0.1:1", "schema": "id BIGINT", **source}
    data = {"name": name, "source": reads, "change": {"keys": ["id"]}, "target": {"table": f"lake://silver/{name}"}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))


def test_one_pipelines_pattern_and_one_broken_file_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(include.monitoring.overview, "KafkaSource", Brokers)
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
