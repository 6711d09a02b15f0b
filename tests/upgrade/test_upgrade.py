"""What earlier versions of Lakemark have left on disk is read and carried on (one story: over 300 lines).

For every version there is an archive of a small installation, and what that version itself said about it. The script
`make_fixtures` made both; for 0.1.0, it was a form of that script for that version's modules, which had other names.
New facts may be reported beside the old ones, but everything that was reported then must still be reported. A change
that breaks one of these tests breaks users' files, ledgers or tables: mend the code, not the fixture.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

import include.monitoring.status
from include.control.backfills import Backfills
from include.installation.stack import Stack
from include.lake.ledger import Ledger
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import BatchKey, app_id
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import FencedGeneration
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.planning import PartitionExtent, SourceExtent
from include.protocol.ranges import TopicPartition
from include.settings import Settings
from include.sources.kafka import KafkaSource
from include.sources.kafka_records import oldest_timestamp
from spark_jobs.engine.marking import marked
from tests.conftest import settings_in, stack_in
from tests.support.archives import unpack
from tests.support.topics import Sent
from tests.support.world import World, as_dict, as_states, changes, newest_by_key, read_table, states_by_key
from tests.upgrade.facts import SECTIONS, as_json, command, halves_of, pipelines_of, status
from tests.upgrade.make_fixtures import TOPICS, good, order, send, verify_new

HERE = Path(__file__).parent
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("v*.tar.xz"))
EVENTS = {
    "generation_started",
    "topics_started",
    "planned",
    "attempt_started",
    "attempt_ended",
    "committed",
    "state_kept",
    "backfill_planned",
    "backfill_ended",
}
ROLES = {"target", "archive", "quarantine", "history", "route", "fence", "backfill cancelled", "maintenance"}


@dataclass(frozen=True)
class Old:
    """An installation that a version has left, unpacked, and what that version said about it."""

    settings: Settings
    said: dict[str, Any]


def unpacked(version: str, folder: Path, **environment: str) -> Old:
    """Makes the files look new, as if this had been made just now: Delta removes old files by their times."""
    with tarfile.open(HERE / f"{version}.tar.xz") as tar:
        unpack(tar, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    later = time.time_ns() - max(path.stat().st_mtime_ns for path in files)
    for path in files:
        at = path.stat().st_mtime_ns + later
        os.utime(path, ns=(at, at))
    places = {"LAKEMARK_LAKE": str(folder / "lake"), "LAKEMARK_PIPELINES": str(folder / "pipelines")}
    said = json.loads((HERE / f"{version}.json").read_text())
    return Old(settings_in(folder, **places, **environment), said)


@contextmanager
def the_environment_of(settings: Settings) -> Iterator[None]:
    """For commands that run in this process."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.child_environment().items():
            patched.setenv(name, value)
        yield


# What that version said, and what was not true: by place, what is true.
CORRECTED = {
    # The last to set it aside was the chunk of a backfill whose table took the target's place.
    "commands.quarantine show.accounts[0].generation": -1,
    "commands.backfill --list.accounts[0].landed": 1,  # it said 0, since a promotion removes the chunks' own commits
}


def assert_still_said(then: Any, now: Any, where: str = "") -> None:
    """Everything from then is still reported; additions are allowed."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name, value in then.items():
            assert name in now, f"{where}: {name} is not said any more"
            assert_still_said(value, now[name], f"{where}.{name}")
    elif isinstance(then, list) and isinstance(now, list):
        assert len(now) == len(then), (where, then, now)
        for n, (one, other) in enumerate(zip(then, now, strict=True)):
            assert_still_said(one, other, f"{where}[{n}]")
    else:
        assert now == CORRECTED.get(where, then), where


# Without a JVM


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Old]:
    """Kafka says what it said then."""
    old = unpacked(request.param, tmp_path, KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9")
    topics = {topic: facts for facts in old.said["kafka"].values() for topic in facts["topic_ids"]}

    def extent(self: KafkaSource) -> SourceExtent:
        [topic] = self._source.topics or (self._source.topics_pattern or "",)
        held = {TopicPartition(t, p): PartitionExtent(*offsets) for t, p, *offsets in topics[topic]["partitions"]}
        return SourceExtent(topics[topic]["cluster_id"], topics[topic]["topic_ids"], held)

    with pytest.MonkeyPatch.context() as patched, the_environment_of(old.settings):
        patched.setattr(KafkaSource, "extent", extent)
        patched.setattr(include.monitoring.status, "verify_answers", lambda *_: None)
        patched.setitem(oldest_timestamp.__globals__, "TIMEOUT_SECONDS", 0.05)  # nobody knows how old a record is
        yield old


@pytest.mark.parametrize("section", SECTIONS)
def test_what_that_version_said_is_said_still(old: Old, section: str) -> None:
    then, now = old.said[section], SECTIONS[section](old.settings)
    for facts in then.get("status", {}).values():
        del facts["lag_records"]
    assert_still_said(then, now, section)


def test_every_event_is_written_as_it_was(old: Old) -> None:
    kinds = set()
    for half in halves_of(old.settings):
        for row in as_json(Ledger(Tables.of(old.settings, half).ledger).rows()):
            kinds.add(row["event"])
            assert_still_said(row, as_json({**row, **to_row(from_row(row))}), f"{half.name} {row['sequence']}")
    assert kinds >= EVENTS


def test_every_commit_is_written_as_it_was(old: Old) -> None:
    roles = set()
    for path in sorted(Path(str(old.settings.lake)).rglob("_delta_log/*.json")):
        [info] = [json.loads(line)["commitInfo"] for line in path.open() if '"commitInfo"' in line] or [{}]
        text = info.get("userMetadata", "{}")
        then = json.loads(text)
        roles.add(then.get("role"))
        metadata = CommitMetadata.loads(text)
        if metadata is not None:
            assert_still_said(then, json.loads(metadata.dumps()), str(path))
    assert roles >= ROLES


@pytest.mark.parametrize("version", VERSIONS)
def test_the_files_of_a_version_are_not_made_again(version: str) -> None:
    with pytest.raises(SystemExit, match=f"tests/upgrade has {version}.tar.xz and {version}.json already"):
        verify_new(version)


def test_a_backfill_that_has_ended_stays_so(old: Old) -> None:
    for pipeline, number in (("accounts", "1"), ("customers", "2")):  # promoted, cancelled
        assert command("backfill", pipeline, "--resume", number, code=1)["error"] == "FencedGeneration"


# With a broker on the old broker's data, and Spark


class Kafka:
    """All that a broker holds, asked without Lakemark: by topic, keys and records by partition and offset. What is no
    JSON stays as it is."""

    def __init__(self, bootstrap_servers: str) -> None:
        about = {"bootstrap.servers": bootstrap_servers, "group.id": "oracle", "enable.auto.commit": False}
        consumer = Consumer({**about, "enable.partition.eof": True, "auto.offset.reset": "error"})
        topics = consumer.list_topics(timeout=30).topics
        partitions = [KafkaPartition(topic, p, 0) for topic in TOPICS for p in topics[topic].partitions]
        consumer.assign(partitions)
        self._found: dict[str, list[tuple[Any, Sent]]] = {topic: [] for topic in TOPICS}
        ends = 0
        while ends < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "Kafka does not answer"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ends += 1
                continue
            sent = Sent(message.topic(), message.partition(), message.offset(), _parsed(message.value()))
            self._found[sent.topic].append((_parsed(message.key()), sent))
        consumer.close()

    def records(self, topic: str) -> list[tuple[Any, Sent]]:
        return sorted(self._found[topic], key=lambda pair: (pair[1].partition, pair[1].offset))

    def good(self, topic: str) -> list[Sent]:
        """Those that are objects."""
        return [sent for _, sent in self.records(topic) if isinstance(sent.value, dict)]

    def last_by_key(self, topic: str, but: Callable[[dict], bool] = lambda value: False) -> dict[int, Sent]:
        """The newest record of each key of a topic with one partition; a record without a value deletes.

        Args: but: which records are left out.
        """
        rows: dict[int, Sent] = {}
        for key, sent in self.records(topic):
            if sent.value is None:
                rows.pop(key["id"], None)
            elif isinstance(sent.value, dict) and not but(sent.value):
                rows[key["id"]] = sent
        return rows


def _parsed(raw: bytes | None) -> Any:
    try:
        return None if raw is None else json.loads(raw)
    except ValueError:
        return raw


@pytest.fixture(params=VERSIONS)
def left(request: pytest.FixtureRequest, stack: Stack, tmp_path: Path) -> Iterator[tuple[World, dict[str, Any]]]:
    """A world that a version has left, and what it said about it."""
    own = stack_in(tmp_path)
    token = {"LAKEMARK_SPARK_TOKEN": stack.spark.token or ""}  # of a server in another home
    addresses = {**stack.addresses(("spark",)), **own.addresses(("kafka",)), **token}
    old = unpacked(request.param, tmp_path, **addresses)
    try:
        own.up(print, ("kafka",))
        with the_environment_of(old.settings):
            yield World(own.broker.bootstrap_servers, settings=old.settings), old.said
    finally:
        own.down()


def send_more(world: World) -> None:
    send(world, "orders", [order(1, "after"), order(3, "test"), ({"id": 10}, None), order(30, "after")])
    world.produce("accounts", [*changes(range(4, 5), 7, op="d"), *changes(range(9, 11), 6, "s")], 2)
    world.produce("customers", [*changes(range(2), 6, "n"), *changes(range(1), 5, "later")], 1)
    world.produce("clients", [*changes(range(1), 5, "n"), *changes(range(1), 4, "later")], 1)
    patches = [{"id": "d", "seq": 5, "room": "cellar"}, {"id": "a", "seq": 2, "name": "lantern", "room": "cellar"}]
    world.produce("devices", patches, 1)
    world.produce("events", changes(range(2), 5, "p"), 1)
    world.produce("shop", [good(10, 1), good(1, 1, name="old")], 1)


def assert_fenced_for_the_old_version(world: World, pipeline: Pipeline, key: BatchKey) -> None:
    """A write as a job of that version makes it, with the plain marker of its generation, adds nothing to any table."""
    paths = [participant.uri(world.settings) for participant in Catalog.of(pipeline).participants]
    before = {path: len(read_table(path)) for path in paths}
    with world.session() as spark, marked(spark, app_id(pipeline.name, key.generation), key.batch_id, "{}"):
        for path in (path for path, rows in before.items() if rows):
            frame = spark.read.format("delta").load(str(path))
            frame.write.format("delta").mode("append").save(str(path))
    assert {path: len(read_table(path)) for path in paths} == before


@pytest.mark.slow
def test_an_installation_of_that_version_is_carried_on(left: tuple[World, dict[str, Any]]) -> None:
    world, said = left
    assert_still_said(said["commands"]["status"], status())
    pipelines = {pipeline.name: pipeline for pipeline in pipelines_of(world.settings)}
    send_more(world)

    # What was planned is planned again as it was, though there is more by now, in a generation of this version. Jobs of
    # the old one, which would not see how tables are made anew, are fenced.
    for name in ("orders", "bookings", "order_lines"):
        planned = said["ledgers"][name]["state"]["batches"][-1]
        assert planned["commit"] is None
        batch = as_json(world.coordinator(pipelines[name]).plan().batch.to_json())
        assert (batch["generation"], batch["batch_id"]) == (planned["batch"]["generation"] + 1, 0)
        kept = ("ranges", "topic_ids", "cluster_id")
        assert [batch[part] for part in kept] == [planned["batch"][part] for part in kept]
        assert batch.get("pins") == planned["batch"].get("pins")
        key = BatchKey(planned["batch"]["generation"], planned["batch"]["batch_id"])
        with pytest.raises(FencedGeneration):
            world.attempt(pipelines[name], 0, key=key)
        assert_fenced_for_the_old_version(world, pipelines[name], key)

    # What was begun is ended: a backfill of which one chunk has landed.
    customers = pipelines["customers"]
    backfills = Backfills(world.coordinator(customers))
    begun = backfills.settler.ledger.state().backfill("customers", 3)
    outcomes = [world.attempt(customers, 0, key=BatchKey(-3, chunk)).outcome for chunk in (0, 1)]
    assert outcomes == ["already_applied", "applied"]
    backfills.finish(begun, lambda: None, "test")

    # What was purged is known still; a ledger is made anew from the commits.
    refused = command("backfill", "accounts", "--batches", "0-0", "--dry-run", code=1)
    [mark, _] = said["tables"]["lake://silver/accounts"]["purged"]
    assert (refused["error"], f"accounts-0@{mark['offset']}" in refused["expected"]) == ("TerminalError", True)
    shutil.rmtree(str(world.coordinator(pipelines["devices"]).ledger.uri))
    assert command("ledger", "rebuild", "devices")["origin"] == "commit metadata"

    merges = {name: sum(world.drain(half) for half in pipeline.halves) for name, pipeline in pipelines.items()}
    assert merges == {**dict.fromkeys(pipelines, 1), "orders": 2, "events": 2}

    suite = world.settings.expectations / "shop.json"
    suite.write_text(suite.read_text().replace('"max_value": 100', '"max_value": 900'))
    command("quarantine", "replay", "shop", "--reason", "prices may be high")

    verify_tables(world, said)
    deep = ("accounts", "clients", "events", "orders", "shop")  # what it can compute
    command("audit", *(pipelines.keys() - deep))  # which finds nothing: it would not exit with 0
    command("audit", "--deep", *deep)


def verify_tables(world: World, said: dict[str, Any]) -> None:
    """Rows are those of an oracle that knows the records alone; or those that were there, and what became of them."""
    kafka, pipelines = Kafka(world.bootstrap_servers), {p.name: p for p in pipelines_of(world.settings)}
    of = {name: world.coordinator(pipeline).tables for name, pipeline in pipelines.items()}

    def rows(name: str) -> dict[int, dict[str, Any]]:
        return as_dict(world.rows(pipelines[name]))

    last = kafka.last_by_key("orders", but=lambda order: order["status"] == "test")
    assert {i: (row["status"], str(row["amount"]), row["place"]) for i, row in rows("orders").items()} == {
        i: (s.value["status"], s.value["amount"], s.offset) for i, s in last.items()
    }
    everything = [s.offset for _, s in kafka.records("orders")]
    assert sorted(row["offset"] for row in read_table(of["orders"].archive or "")) == everything

    newest = newest_by_key(kafka.good("accounts"))
    assert rows("accounts") == {i: row for i, row in newest.items() if row["op"] != "d"}
    assert as_states(world.rows(pipelines["customers"])) == states_by_key(kafka.good("customers"))
    assert rows("clients") == newest_by_key(kafka.good("clients"))
    assert as_states(read_table(world.table(pipelines["clients"], "history"))) == states_by_key(kafka.good("clients"))

    booked = {i: s.value for i, s in kafka.last_by_key("bookings").items()}
    [route] = pipelines["bookings"].target.routes
    refunds = as_dict(read_table(world.table(pipelines["bookings"], route.table)))
    assert rows("bookings") == {i: row for i, row in booked.items() if row["kind"] != "refund"}
    assert refunds == {i: row for i, row in booked.items() if row["kind"] == "refund"}

    assert rows("events") == newest_by_key(kafka.good("events"))
    everything = [s.offset for _, s in kafka.records("events")]
    assert sorted(row["offset"] for row in read_table(of["events"].archive or "")) == everything

    expected, prices = {}, {"lamp": Decimal("10.00"), "plug": Decimal("2.50")}  # as there were when it was planned
    for sent in sorted(kafka.good("order-lines"), key=lambda sent: sent.value["seq"]):
        for article, pieces in (item.values() for item in sent.value["items"]):
            if article in prices:
                expected[sent.value["id"], article] = (pieces, pieces * prices[article])
    made = world.rows(pipelines["order_lines"])
    assert {(row["order_id"], row["article"]): (row["pieces"], row["amount"]) for row in made} == expected

    def before(name: str) -> dict[Any, dict[str, Any]]:
        return as_dict(said["tables"][f"lake://silver/{name}"]["rows"])

    devices = before("devices")
    devices["d"] |= {"room": "cellar", "seq": 5}
    devices["a"] |= {"name": "lantern"}  # its room is of a newer change
    assert rows("devices") == devices
    assert rows("shop") == {**before("shop"), 7: good(7, 1, price=400.0), 10: good(10, 1)}
    found = {row.pop("reason"): row for row in command("quarantine", "list", "shop")}
    assert found == {
        "breaks column_values_to_be_between(price)": {"pending": 0, "replayed": 3, "discarded": 0, "applied": 0},
        "breaks column_values_to_not_be_null(name)": {"pending": 1, "replayed": 0, "discarded": 1, "applied": 0},
    }
