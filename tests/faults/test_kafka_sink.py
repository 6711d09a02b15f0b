"""Deliveries to a topic of a real broker: its read_committed readers see each commit whole, once, and in order."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from include.control.deliveries import Deliverer
from include.installation.stack import Stack
from include.protocol.errors import TerminalError
from tests.support.delivered import DELIVER, deliverer
from tests.support.sink_topics import Read, Topic, stream_of
from tests.support.stopped import stopped
from tests.support.stream import Change, Stream
from tests.support.without_kafka import COMMAND, command


def assert_each_once_and_in_order(stream: Stream, records: list[Read]) -> None:
    """Each number of each batch once; and in a partition, batch after batch."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for record in records:
        numbers[record.version].append(record.number)
    assert {batch: sorted(found) for batch, found in numbers.items()} == {
        batch: list(range(len(found))) for batch, found in numbers.items()
    }
    for partition in {record.partition for record in records}:
        order = [(r.version, r.number) for r in records if r.partition == partition]
        assert order == sorted(order)


def test_a_topic_has_every_change_once_and_in_order(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    dice = Random(3)
    for _ in range(4):
        stream.land(dice=dice)
    for _ in range(3):
        assert deliverer(stream).deliver() is not None
        records = topic.read()
        assert topic.rows() == stream.rows
        assert {record.version for record in records} == set(range(len(stream.changes)))
        assert_each_once_and_in_order(stream, records)
        stream.land(dice=dice)


def test_a_delete_is_a_record_without_a_value_or_with_a_flag(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (deletes, value) in enumerate({"tombstone": None, "flag": {"id": 1, "lakemark_deleted": True}}.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        stream, topic = stream_of(folder, stack, monkeypatch, deletes=deletes)
        stream.land([Change(1, 1, "a"), Change(2, 1, "b")])
        stream.land([Change(1, 2, None, deletes=True)])
        deliverer(stream).deliver()
        [gone] = [record for record in topic.read() if record.version == 1]
        assert (gone.key, gone.value) == ('{"id":1}', value)


@pytest.mark.parametrize(
    "point", ["sink.written", *(pytest.param(p, marks=pytest.mark.slow) for p in ("sink.taken", "sink.committed"))]
)
def test_a_delivery_that_is_killed_or_stopped_is_ended_by_the_next(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch, zombies: list[subprocess.Popen], point: str
) -> None:
    """Killed twice, then stopped: the next one fences it, so that it changes nothing when it wakes up."""
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    for _ in range(2):
        stream.land()
        assert command(*DELIVER, fault=point).returncode == -signal.SIGKILL
    env = {**os.environ, "LAKEMARK_TEST_FAULT": f"{point}=stop"}
    stream.land()
    zombie = subprocess.Popen([*COMMAND, *DELIVER], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    zombies.append(zombie)
    stopped(zombie)
    assert deliverer(stream).deliver() is not None
    stream.land()
    assert deliverer(stream).deliver() is not None
    zombie.send_signal(signal.SIGCONT)
    zombie.wait(120)
    stream.land()
    assert deliverer(stream).deliver() is not None
    assert topic.rows() == stream.rows
    assert_each_once_and_in_order(stream, topic.read())
    if point == "sink.written":
        assert len(topic.read("read_uncommitted")) > len(topic.read())


@pytest.mark.parametrize(("guarantee", "point", "doubled"), [("at_least_once", 1, True), ("at_most_once", 1, False)])
def test_a_weaker_guarantee_doubles_or_loses(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch, guarantee: str, point: int, doubled: bool
) -> None:
    """Killed after the first of two transactions."""
    stream, topic = stream_of(tmp_path, stack, monkeypatch, guarantee=guarantee)
    stream.land()
    assert command(*DELIVER, fault="sink.committed").returncode == -signal.SIGKILL
    assert command(*DELIVER).returncode == 0
    records = topic.read()
    assert len(records) == (2 * len(stream.rows) if doubled else 0)


def test_advice_for_what_a_sink_lacks_works_word_for_word(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"out-{uuid.uuid4().hex[:10]}"
    place = {"bootstrap_servers": stack.broker.bootstrap_servers, "topic": name}
    stream = Stream.of(tmp_path, monkeypatch, app={"kafka": place})
    stream.land()
    lacking = command(*DELIVER)
    assert lacking.returncode == 1 and "`lakemark sinks create p app`" in lacking.stderr, lacking.stderr
    assert command("sinks", "create", "p", "app").stdout.count("kafka-topics.sh") == 2
    assert command("sinks", "create", "p", "app", "--run").returncode == 0
    assert command(*DELIVER).returncode == 0
    assert Topic(stack.broker.bootstrap_servers, name).rows() == stream.rows


def test_a_topic_of_progress_that_would_forget_it_is_refused_before_all_is_delivered_again(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    assert deliverer(stream).deliver() is not None
    name = f"{topic.name}.lakemark-progress"
    configured(topic, name, {"cleanup.policy": "delete", "retention.ms": "60000"})
    admin = AdminClient({"bootstrap.servers": topic.servers})
    [deleted] = admin.delete_records([TopicPartition(name, 0, OFFSET_END)]).values()  # as retention does
    deleted.result()
    stream.land()
    with pytest.raises(TerminalError, match="would forget it") as failure:
        deliverer(stream).deliver()
    assert f"--alter --topic {name} --add-config cleanup.policy=compact`" in failure.value.action
    configured(topic, name, {"cleanup.policy": "compact"})
    assert command("sinks", "skip", "p", "app", "--all", "--reason", "it has them").returncode == 0
    stream.land()
    assert deliverer(stream).deliver() is not None
    assert_each_once_and_in_order(stream, topic.read())
    assert {record.version for record in topic.read()} == {0, 2}


def configured(topic: Topic, name: str, values: dict[str, str]) -> None:
    """Sets a topic's configuration, as `kafka-configs.sh` does."""
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": topic.servers})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result()


def test_a_topic_has_one_writer(tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    stream.land()
    deliverer(stream).deliver()
    (tmp_path / "other").mkdir()
    other = Stream.of(
        tmp_path / "other", monkeypatch, another={"kafka": {"bootstrap_servers": topic.servers, "topic": topic.name}}
    )
    other.land()
    with pytest.raises(TerminalError, match=r"another sink delivers there.*that of p/app"):
        Deliverer(other.coordinator.settings, other.coordinator.pipeline, "another").deliver()


def test_a_topic_of_progress_with_several_partitions_doubles_nothing(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that makes topics by itself gives them as many as its default says."""
    stream, topic = stream_of(tmp_path, stack, monkeypatch)
    admin = AdminClient({"bootstrap.servers": topic.servers})
    name = f"{topic.name}.lakemark-progress"
    for partitions in admin.create_partitions([NewPartitions(name, 5)]).values():
        partitions.result()
    for _ in range(3):
        stream.land()
        assert deliverer(stream).deliver() is not None
    assert topic.rows() == stream.rows
    assert_each_once_and_in_order(stream, topic.read())
