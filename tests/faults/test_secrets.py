"""A planted password reaches no log, no table, no commit and no event log of Spark's: everything is searched for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from include.installation.spark_server import events_folder
from include.installation.stack import Stack
from tests.conftest import world_in
from tests.support.guarded_broker import LOGIN, PASSWORD, USER, guarded_broker
from tests.support.waiting import wait_until
from tests.support.world import World, changes


@pytest.fixture
def guarded(stack: Stack, tmp_path: Path) -> Iterator[World]:
    """A world whose broker wants a name and a password."""
    with guarded_broker(stack, tmp_path / "guarded-broker") as servers:
        world = world_in(tmp_path / "world", stack)
        world.bootstrap_servers, world.login = servers, LOGIN
        yield world


def of_server(home: Path) -> list[bytes]:
    """The event log of the Spark Connect server, file by file. The newest may end in the middle of a frame."""
    found = []
    for file in events_folder(home).rglob("events_*"):
        with suppress(OSError), pa.input_stream(str(file), compression="zstd") as log:
            found.append(b"")
            while part := log.read(1 << 20):
                found[-1] += part
    return found


@pytest.mark.slow
def test_a_planted_password_is_found_nowhere(guarded: World, stack: Stack, tmp_path: Path) -> None:
    world = guarded
    topic = world.topic()
    security = {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "PLAIN",
        "username": USER,
        "password": "${LAKEMARK_VAR_PLANTED}",
    }
    source = {"bootstrap_servers": world.bootstrap_servers, "security": security}
    world.settings = type(world.settings).from_environment(
        {**world.settings.child_environment(), "LAKEMARK_VAR_PLANTED": PASSWORD}
    )
    pipeline = world.pipeline(topic, "guarded", source=source)
    world.produce(topic, [*changes(range(20), 1), b"{"])
    events, conf = tmp_path / "events", tmp_path / "conf"
    events.mkdir()
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.eventLog.enabled true\nspark.eventLog.dir file:{events}\n")
    by_spark, by_lane = {"LAKEMARK_MERGE_ENGINE": "spark"}, {"LAKEMARK_MERGE_ENGINE": "lane"}
    own = {**by_spark, "LAKEMARK_SPARK_REMOTE": "", "LAKEMARK_SPARK_MASTER": "local[2]", "SPARK_CONF_DIR": str(conf)}
    said = [world.lakemark("run", "guarded", **own)]  # on a driver of its own, which keeps an event log
    for number, engine in enumerate((by_spark, by_lane)):
        world.produce(topic, changes(range(10 + 10 * number, 30 + 10 * number), 2 + number))
        said.append(world.lakemark("run", "guarded", **engine))
    commands = (["status"], ["audit", "--deep"], ["ledger", "show"], ["explain"], ["plan", "--json"])
    said += [world.lakemark(command[0], *_named(command)) for command in commands]
    wrong = world.lakemark("plan", "guarded", LAKEMARK_VAR_PLANTED=f"not-{PASSWORD}")  # and an error that speaks of it
    assert [done.returncode for done in said] == [0] * len(said), [done.stderr for done in said]
    assert "Kafka refused the login" in wrong.stderr
    assert len(world.rows(pipeline)) == 40
    assert list(events.iterdir()) != []
    texts = [text for done in [*said, wrong] for text in (done.stdout, done.stderr)]
    home = stack.settings.home
    files = [p for root in (tmp_path, stack.settings.logs, home / "spark") for p in root.rglob("*") if p.is_file()]
    searched = [p for p in files if "guarded-broker" not in p.parts]
    assert len(searched) > 20
    # The server writes its event log with a small delay: the statement of the read must be in it.
    server_log = wait_until(lambda: [log for log in of_server(home) if b"kafka.*********(redacted)" in log], 30)
    for secret in (PASSWORD, json.dumps(PASSWORD)[1:-1], "anted-5ecret"):
        assert [text for text in texts if secret in text] == []
        assert [p for p in searched if secret.encode() in p.read_bytes()] == []
        assert [log for log in server_log if secret.encode() in log] == []


def _named(command: list[str]) -> list[str]:
    rest = command[1:]
    return [rest[0], "guarded", *rest[1:]] if rest and not rest[0].startswith("-") else ["guarded", *rest]
