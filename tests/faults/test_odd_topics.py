"""Topics of sinks that somebody else has written to, changed or deleted: that is told, and nothing comes twice."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from include.audit import sink_contents
from include.audit.sinks import sink_findings
from include.installation.stack import Stack
from tests.support.delivered import DELIVER, deliverer
from tests.support.sink_servers import free_port
from tests.support.sink_topics import Topic, stream_of
from tests.support.stream import Change
from tests.support.waiting import wait_until
from tests.support.without_kafka import command


def test_records_that_no_delivery_has_written_are_found(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    assert deliverer(stream).deliver() is not None
    assert stream.findings() == []
    producer = Producer({"bootstrap.servers": topic.servers})
    for value, key in ((b"no json", b"a"), (b"[1]", b"b"), (b'{"id": "x"}', b"c"), (b"{}", None)):
        producer.produce(topic.name, value, key)
    producer.flush(30)
    [told] = stream.findings()
    assert told.startswith("the sink has 4 records that no delivery has written, such as offset ")


def test_a_progress_that_no_delivery_has_written_is_told_and_begun_anew(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    assert deliverer(stream).deliver() is not None
    producer = Producer({"bootstrap.servers": topic.servers})
    producer.produce(f"{topic.name}.lakemark-progress", b"no json", b"p/app")
    producer.flush(30)
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "the progress of a sink cannot be read" in refused.stderr
    assert stream.findings() == []  # what it has is right
    assert command("sinks", "deliver", "p", "app", "--snapshot").returncode == 0
    stream.land()
    assert command(*DELIVER).returncode == 0
    assert topic.rows() == stream.rows


def test_a_broker_that_is_away_is_a_finding(tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, _ = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    assert deliverer(stream).deliver() is not None
    place = stream.coordinator.pipeline.sinks["app"].topic
    away = stream.coordinator.pipeline.model_copy(
        update={
            "sinks": {
                "app": stream.coordinator.pipeline.sinks["app"].model_copy(
                    update={"kafka": place.model_copy(update={"bootstrap_servers": f"127.0.0.1:{free_port()}"})}
                )
            }
        }
    )
    monkeypatch.setattr(sink_contents, "_SECONDS", 2.0)
    [told] = [finding.what for finding in sink_findings(stream.coordinator.settings, away, "app")]
    assert "a sink cannot be read" in told


def test_a_record_that_is_too_large_for_the_topic_is_told_with_what_lets_it_in(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land([Change(1, 1, "".join(random_letters(Random(1), 1_500_000)))])
    refused = command(*DELIVER)
    assert refused.returncode == 1 and "raise the topic's max.message.bytes" in refused.stderr
    limit = ConfigEntry("max.message.bytes", "4000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=[limit])
    admin = AdminClient({"bootstrap.servers": topic.servers})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)
    assert command(*DELIVER).returncode == 0
    assert topic.rows() == stream.rows


def random_letters(dice: Random, number: int) -> list[str]:
    return dice.choices("abcdefghijklmnopqrstuvwxyz", k=number)


def deleted(topic: Topic, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": topic.servers})
    for gone in admin.delete_topics([name], operation_timeout=30).values():
        gone.result()
    wait_until(lambda: name not in admin.list_topics(timeout=30).topics, 30)


@pytest.mark.parametrize("what", ["rows", "changes"])
def test_a_topic_of_progress_that_is_gone_does_not_let_all_come_again(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch, what=what)
    stream.land()
    assert command(*DELIVER).returncode == 0
    before = topic.read()
    deleted(topic, f"{topic.name}.lakemark-progress")
    stream.land()
    lost = command(*DELIVER)
    assert lost.returncode == 1 and "`lakemark sinks create p app`" in lost.stderr
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    refused = command(*DELIVER)
    assert refused.returncode == 1 and f"records in {topic.name}, and no progress of this sink" in refused.stderr
    assert topic.read() == before
    advice = ("deliver", "p", "app", "--snapshot") if what == "rows" else ("skip", "p", "app", "--all", "--reason", "x")
    assert " ".join(advice[:4]) in refused.stderr
    assert command("sinks", *advice).returncode == 0
    stream.land()
    assert command(*DELIVER).returncode == 0
    if what == "rows":
        assert topic.rows() == stream.rows


def test_a_topic_that_is_made_again_gets_all_of_it(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch, begin="snapshot")
    stream.land()
    assert command(*DELIVER).returncode == 0
    deleted(topic, topic.name)
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    stream.land()
    assert command(*DELIVER).returncode == 0
    assert topic.rows() == stream.rows


def test_a_first_delivery_that_was_killed_leaves_no_records_in_the_way(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic has offsets, of a transaction that was aborted, and no record."""
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    assert command(*DELIVER, fault="sink.written").returncode == -signal.SIGKILL
    assert command(*DELIVER).returncode == 0
    assert topic.rows() == stream.rows
