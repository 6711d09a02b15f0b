"""Starts, awaits and ends the services of `lakemark up` on one machine: Kafka, a warm Spark server, Airflow, and an
S3-compatible store if the lake is to lie on one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Self

import psutil

from include.installation import readiness
from include.installation.airflow_home import AirflowHome
from include.installation.broker import Broker
from include.installation.jars import verify_fetched
from include.installation.java import Java, find_java
from include.installation.lake_choice import LAKE, LakeChoice, variables, with_lake
from include.installation.object_store import ObjectStore
from include.installation.spark_server import SparkServer
from include.installation.supervisor import (
    Service,
    abandoned_session,
    end_session,
    session_members,
    spawn,
    supervisor_state,
)
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import ADDRESSES, PROJECT_ROOT, Settings, token_file

PORTS = {"kafka": 9092, "kafka_controller": 9093, "s3": 9000, "spark": 15002, "airflow": 8080}
ALL_PARTS = ("kafka", "s3", "spark", "airflow")
PARTS = tuple(part for part in ALL_PARTS if part != "s3")  # with a local lake
READY_SECONDS = 300.0

_CODE = ("include", "spark_jobs", "plugins", "dags")
_OF_USERS = ("pipelines", "transforms", "expectations", "sinks")  # read again for every job
Say = Callable[[str], None]


@dataclass(frozen=True)
class Stack:
    """The services of one installation (one home), at its own ports."""

    settings: Settings
    ports: dict[str, int]
    java: Java

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The installation's services. Ports are chosen once (the usual ones if they are free) and kept in the home."""
        settings.home.mkdir(parents=True, exist_ok=True)
        file = settings.home / "ports.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        ports = {name: kept.get(name) or free_port(usual) for name, usual in PORTS.items()}
        if ports != kept:
            file.write_text(json.dumps(ports))
        return cls(settings, ports, find_java(settings.java, settings.home / "java"))

    def with_lake(self, chosen: LakeChoice | None) -> Self:
        """The same with its lake chosen. See `lake_choice`."""
        return replace(self, settings=with_lake(self.settings, self.store, chosen))

    @property
    def parts(self) -> tuple[str, ...]:
        """What it consists of."""
        return tuple(part for part in ALL_PARTS if part != "s3" or str(self.settings.lake) == LAKE)

    @property
    def state_file(self) -> Path:
        return self.settings.home / "supervisor.json"

    @property
    def broker(self) -> Broker:
        ports = self.ports["kafka"], self.ports["kafka_controller"]
        return Broker(self.java, self.settings.jars, self.settings.home / "kafka", *ports)

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(self.java, self.settings.jars, self.settings.home / "s3", self.ports["s3"])

    @property
    def spark(self) -> SparkServer:
        return SparkServer(self.settings, self.java, port=self.ports["spark"], token=self._spark_token())

    def _spark_token(self) -> str:
        """What the Spark server asks of its clients. It is made once, and only the home's user can read it."""
        given, file = self.settings.environment.get("LAKEMARK_SPARK_TOKEN"), token_file(self.settings.home)
        if given:
            return given
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=file.parent) as made:  # readable by this user only
                made.write(secrets.token_urlsafe(32))
                made.flush()
                with suppress(FileExistsError):  # another process was faster
                    os.link(made.name, file)
        return file.read_text()

    @property
    def airflow(self) -> AirflowHome:
        return AirflowHome(self.settings.home / "airflow", self.ports["airflow"], self.settings.airflow_database)

    def up(self, say: Say, parts: Sequence[str] = PARTS) -> None:
        """Starts the parts that do not run, and returns when all of them answer.

        Raises:
            TerminalError: a part did not get ready in time, or other parts than these run already.
        """
        self.start(say, parts)
        for part in parts:
            self.wait_for(part, say)

    def start(self, say: Say, parts: Sequence[str] = PARTS) -> None:
        """Starts the parts that do not run, without waiting: the first half of `up`."""
        state = supervisor_state(self.state_file)
        if state is None:
            if self.down():
                say("ended the processes that a killed supervisor had left")
            self._refuse_taken_ports(parts)
            verify_fetched(self.settings.jars)
            with _private():
                self._start(parts)
            say(f"starting {', '.join(parts)}; logs in {self.settings.logs}")
        elif _parts_of(state) != set(parts):
            raise TerminalError(
                what="other services run already",
                where=str(self.settings.home),
                expected=", ".join(parts),
                found=", ".join(sorted(_parts_of(state))),
                action="`lakemark down` first",
            )
        elif _code_is_newer(state["created"]):
            say(
                "The services run the code that they began with, and the code has changed since. `lakemark down`, then "
                "`lakemark up` start them with the new one."
            )

    def down(self) -> bool:
        """Ends every process that `up` started, even if the supervisor was killed. False if none ran."""
        state = supervisor_state(self.state_file)
        session = state["pid"] if state else abandoned_session(self.state_file)
        if session is not None:
            end_session(session)
        self.state_file.unlink(missing_ok=True)
        (self.settings.home / ADDRESSES).unlink(missing_ok=True)
        return session is not None

    def service_pid(self, name: str) -> int | None:
        """The id of a service's present process; None if there is none."""
        state = supervisor_state(self.state_file)
        return None if state is None else state["services"].get(name, {}).get("pid")

    def processes(self) -> list[psutil.Process]:
        """All processes that `up` started, and their children."""
        state = supervisor_state(self.state_file)
        return session_members(state["pid"]) if state else []

    def services(self, parts: Sequence[str] = PARTS) -> list[Service]:
        airflow = str(Path(sys.executable).parent / "airflow")
        environment: dict[str, str] = {}
        if "airflow" in parts:
            environment = {**self.addresses(parts), **self.airflow.environment(self.settings.environment)}
        # `airflow standalone` would start the same four, but its log servers listen on every interface. With the local
        # executor the UI reads task logs from the disk, and needs no log server.
        services = {
            "kafka": [Service("kafka", self.broker.command())],
            "s3": [Service("s3", self.store.command())],
            "spark": [Service("spark", self.spark.command(), self.spark.environment())],
            "airflow": [
                Service("airflow-api-server", [airflow, "api-server"], environment, [airflow, "db", "migrate"]),
                Service("airflow-scheduler", [airflow, "scheduler", "--skip-serve-logs"], environment),
                Service("airflow-dag-processor", [airflow, "dag-processor"], environment),
                Service("airflow-triggerer", [airflow, "triggerer", "--skip-serve-logs"], environment),
            ],
        }
        return [service for part in parts for service in services[part]]

    def addresses(self, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """Environment variables with the addresses of these services."""
        addresses = {
            "kafka": {"KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers},
            "s3": variables(self.store),
            "spark": {"LAKEMARK_SPARK_REMOTE": self.spark.remote},
            "airflow": {"LAKEMARK_AIRFLOW_URL": self.airflow.url},
        }
        return {name: text for part in parts for name, text in addresses[part].items()}

    def wait_for(self, part: str, say: Say) -> None:
        """Waits until a part answers, and says every ten seconds that it waits."""
        answers = {
            "kafka": lambda: readiness.kafka_answers(self.broker.bootstrap_servers),
            "s3": lambda: readiness.store_answers(self.store.url),
            "spark": lambda: readiness.spark_answers(self.spark.port),
            "airflow": lambda: readiness.airflow_answers(self.airflow.url),
        }[part]
        began = said = time.monotonic()
        while not answers():
            now = time.monotonic()
            if supervisor_state(self.state_file) is None or now - began > READY_SECONDS:
                raise TerminalError(
                    what=f"{part} did not get ready",
                    where=str(self.settings.logs),
                    expected=f"an answer within {READY_SECONDS:.0f} s",
                    found="none",
                    action=f"read the logs {self.settings.logs}/{part}*.log and supervisor.log",
                )
            if now - said > 10:
                say(f"waiting for {part} ({now - began:.0f} s)")
                said = now
            time.sleep(0.2)
        say(f"{part} is ready")

    def _refuse_taken_ports(self, parts: Sequence[str]) -> None:
        for name, port in self.ports.items():
            if name.split("_")[0] in parts and not _is_free(port):
                raise TerminalError(
                    what="a port is taken",
                    where=f"{name}, 127.0.0.1:{port}",
                    expected="a free port",
                    found="another process listens there",
                    action=f"end that process, or remove {self.settings.home / 'ports.json'} to choose other ports",
                )

    def _start(self, parts: Sequence[str]) -> None:
        settings = self.settings
        settings.home.chmod(0o700)  # the home of secrets, records and logs
        settings.logs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(settings.home / "spark" / "scratch", ignore_errors=True)
        if "kafka" in parts:
            self.broker.prepare()
        if "s3" in parts:
            self.store.prepare()
        if "airflow" in parts:
            self.airflow.prepare()
        (settings.home / ADDRESSES).write_text(json.dumps(self.addresses(parts)))
        command = [sys.executable, "-m", "include.installation.serve", *parts]
        path = os.pathsep.join(filter(None, (str(PROJECT_ROOT), settings.environment.get("PYTHONPATH"))))
        environment = settings.child_environment(PYTHONUNBUFFERED="1", PYTHONPATH=path)
        spawn(command, settings.logs / "supervisor.log", environment)
        deadline = time.monotonic() + 30
        while supervisor_state(self.state_file) is None and time.monotonic() < deadline:
            time.sleep(0.1)


@contextmanager
def _private() -> Iterator[None]:
    """No other user can read files that are made meanwhile."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _parts_of(state: JsonObject) -> set[str]:
    return {name.split("-")[0] for name in state["services"]}


def _code_is_newer(than: float) -> bool:
    """Whether a file of the code that services load was changed after that moment (seconds since 1970)."""
    files = (file for folder in _CODE for file in (PROJECT_ROOT / folder).rglob("*.py"))
    return any(file.stat().st_mtime > than for file in files if file.parent.name not in _OF_USERS)


def free_port(usual: int) -> int:
    if _is_free(usual):
        return usual
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
