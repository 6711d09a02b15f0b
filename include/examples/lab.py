"""What the examples share: services of this installation, a lake of their own, the command, a producer, and readers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from include.installation.stack import Stack
from include.lake.uri import lake_at
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import PROJECT_ROOT, Settings

FILES = PROJECT_ROOT / "include" / "pipelines" / "examples"
_PARTS = ("kafka", "spark")
_SECONDS = 60.0
_PARTITIONS = 2
Say = Callable[[str], None]


@dataclass
class Lab:
    """One run of an example.

    Args:
        settings: with the services' addresses, and a lake in `folder`.
    """

    settings: Settings
    folder: Path
    say: Say
    variables: dict[str, str] = field(default_factory=dict)  # of the pipeline files

    @property
    def servers(self) -> str:
        return self.settings.environment["KAFKA_BOOTSTRAP_SERVERS"]

    def pipeline(self, name: str) -> Pipeline:
        """The example's file, whose folder `/srv/export` lies in this lab."""
        text = (FILES / f"{name}.yaml").read_text().replace("/srv/export", str(self.folder / "export"))
        (self.settings.pipelines / f"{name}.yaml").write_text(text)
        return find_pipeline(name, self.settings.pipelines, {**self.settings.environment, **self.variables})

    def fresh_topics(self, *topics: str, gone: Sequence[str] = ()) -> None:
        """Makes topics anew, without a record. Args: gone: topics that are removed, and that somebody else makes."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 2})
        there = {*topics, *gone} & {*admin.list_topics(timeout=_SECONDS).topics}
        for done in admin.delete_topics([*there]).values() if there else ():
            done.result()
        self.wait_for("Kafka has removed them", lambda: not {*gone} & {*admin.list_topics(timeout=_SECONDS).topics})

        def made() -> bool:
            try:
                for done in admin.create_topics([NewTopic(topic, _PARTITIONS, 1) for topic in topics]).values():
                    done.result()
            except KafkaException:  # the broker still deletes one of them
                return False
            return True

        _until(made, "Kafka has made the topics")

    def send(self, topic: str, records: Iterable[JsonObject], key: str) -> None:
        """Sends records. Args: key: the field that Kafka's key is made of."""
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 2})
        for record in records:
            producer.produce(topic, json.dumps(record), str(record[key]))
        if producer.flush(_SECONDS):
            raise TerminalError(
                what="Kafka does not take the example's records",
                where=topic,
                expected=f"an answer within {_SECONDS:.0f} s",
                found="none",
                action="see the broker's log in `.lakemark/logs`",
            )

    def lakemark(self, *arguments: str, fault: str = "", why: str = "") -> str:
        """Runs a command as a user does, and returns what it says. Args: fault: what kills it or its job on the way.
        why: for people.

        Raises:
            TerminalError: it does not end as it should.
        """
        told = f"$ lakemark {' '.join(arguments)}" + (f"    # killed {why}" if fault else "")
        self.say(told)
        changes = {**self.variables, **({"LAKEMARK_TEST_FAULT": f"{fault}=kill"} if fault else {})}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "lakemark"), *arguments],
            env={**os.environ, **self.settings.child_environment(**changes)},
            capture_output=True,
            text=True,
            check=False,
        )
        was_killed = done.returncode == -signal.SIGKILL or "killed by SIGKILL" in done.stderr
        if (was_killed if fault else done.returncode == 0) is False:
            raise TerminalError(
                what="a command of the example did not end as it should",
                where=told,
                expected="a kill" if fault else "success",
                found=f"code {done.returncode}: {(done.stderr or done.stdout)[-1000:]}",
                action="report this with the message",
            )
        return done.stdout

    @contextmanager
    def reader(self, topic: str, isolation: str) -> Iterator[list[JsonObject]]:
        """What a consumer reads meanwhile, record by record. Args: isolation: read_committed or read_uncommitted."""
        seen: list[JsonObject] = []
        ended = threading.Event()
        thread = threading.Thread(target=_read, args=(self.servers, topic, isolation, seen, ended), daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join(_SECONDS)

    def wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        """Waits until it is so. Args: what: for people."""
        _until(is_so, what)


def _read(servers: str, topic: str, isolation: str, seen: list[JsonObject], ended: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"example-{isolation}-{time.time_ns()}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    quiet_since = time.monotonic()
    while not ended.is_set() or time.monotonic() - quiet_since < 3.0:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None and (value := message.value()) is not None:
            seen.append(json.loads(value))
            quiet_since = time.monotonic()
    consumer.close()


@contextmanager
def open_lab(settings: Settings, name: str, say: Say) -> Iterator[Lab]:
    """A lab for an example, with nothing in it of an earlier run. The services go on when it ends."""
    stack = Stack.of(settings)
    if any(stack.service_pid(part) is None for part in _PARTS):
        stack.up(say, _PARTS)
    found = Settings.from_environment({**stack.settings.environment, **stack.addresses(_PARTS)})
    yield lab_in(found, settings.home / "examples" / name, say)


def lab_in(settings: Settings, folder: Path, say: Say) -> Lab:
    """A lab in a folder of its own, which it empties."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "pipelines").mkdir(parents=True)
    sinks = PROJECT_ROOT / "include" / "sinks"
    own = replace(settings, pipelines=folder / "pipelines", sinks=sinks, lake=lake_at(str(folder / "lake")))
    own.tell_libraries()
    return Lab(own, folder, say)


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TerminalError(
                what="the example waits for something that does not come",
                where=what,
                expected=f"it within {_SECONDS:.0f} s",
                found="it is not so",
                action="see the logs in `.lakemark/logs`",
            )
        time.sleep(0.2)
