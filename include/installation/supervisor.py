"""Keeps services running: starts them, restarts those that die, and ends all of them together.

The supervisor leads a process session of its own, and its services stay in it. So the kernel knows everything that `up`
started: all processes with that session id. (Airflow puts every task into a process group of its own. Therefore the
session counts, not the group.)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from include.protocol.json_data import JsonObject

RESTART_SECONDS = (0.5, 30.0)  # the first wait and the longest; the wait doubles with each death in a row
STEADY_SECONDS = 60.0  # a service that ran this long restarts after the first, short wait
END_SECONDS = 20.0  # between the request to end and the kill


@dataclass(frozen=True)
class Service:
    """One process to keep running.

    `before` is a command that must succeed each time before the service starts, such as a migration.
    """

    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    before: list[str] | None = None


@dataclass
class _Kept:
    """A service and its present process."""

    service: Service
    process: subprocess.Popen | None = None
    started: float = 0.0
    wait: float = RESTART_SECONDS[0]
    due: float = 0.0
    starts: int = 0


class Supervisor:
    """Runs in the process that `lakemark up` leaves behind."""

    def __init__(self, services: list[Service], logs: Path, state: Path) -> None:
        self._kept = [_Kept(service) for service in services]
        self._logs, self._state = logs, state
        self._ending = False

    def run(self) -> None:
        """Runs until it is told to end, and returns when everything has ended."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        while not self._ending:
            for kept in self._kept:
                self._keep(kept)
            time.sleep(0.2)
        end_session(os.getsid(0), spare={os.getpid()})
        self._state.unlink(missing_ok=True)

    def _keep(self, kept: _Kept) -> None:
        now = time.monotonic()
        if kept.process is not None and kept.process.poll() is not None:
            if now - kept.started > STEADY_SECONDS:
                kept.wait = RESTART_SECONDS[0]
            _say(f"{kept.service.name} ended with {kept.process.returncode}; it starts again in {kept.wait:.1f} s")
            kept.process, kept.due = None, now + kept.wait
            kept.wait = min(2 * kept.wait, RESTART_SECONDS[1])
            self._write_state()
        if kept.process is None and now >= kept.due and not self._ending:
            self._start(kept)

    def _start(self, kept: _Kept) -> None:
        service = kept.service
        environment = {**os.environ, **service.environment}
        with (self._logs / f"{service.name}.log").open("ab") as log:
            nothing, both = subprocess.DEVNULL, subprocess.STDOUT
            if service.before is not None:
                before = subprocess.run(
                    service.before, env=environment, stdin=nothing, stdout=log, stderr=both, check=False
                )
                if before.returncode != 0:
                    _say(f"{service.name}: {service.before} failed with {before.returncode}")
                    kept.due = time.monotonic() + kept.wait
                    kept.wait = min(2 * kept.wait, RESTART_SECONDS[1])
                    return
            kept.process = subprocess.Popen(service.command, env=environment, stdin=nothing, stdout=log, stderr=both)
        kept.started, kept.starts = time.monotonic(), kept.starts + 1
        _say(f"{service.name} started as process {kept.process.pid}")
        self._write_state()

    def _write_state(self) -> None:
        facts = {
            "pid": os.getpid(),
            "created": psutil.Process().create_time(),
            "services": {
                k.service.name: {"pid": k.process.pid if k.process else None, "starts": k.starts} for k in self._kept
            },
        }
        scratch = self._state.with_suffix(".new")
        scratch.write_text(json.dumps(facts))
        scratch.replace(self._state)

    def _end(self, _signal: int, _frame: object) -> None:
        self._ending = True


def supervisor_state(state: Path) -> JsonObject | None:
    """What a living supervisor last wrote about itself; None if none lives. A reused process id does not count."""
    try:
        facts = json.loads(state.read_text())
        alive = abs(psutil.Process(facts["pid"]).create_time() - facts["created"]) < 1
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return None
    return facts if alive else None


def abandoned_session(state: Path) -> int | None:
    """The session of a supervisor that was killed while its services live on; None if there is none.

    The kernel gives no process an id that is still the id of a session. So only a restart of the machine could give
    the number another meaning.
    """
    try:
        facts = json.loads(state.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if psutil.pid_exists(facts["pid"]) or facts["created"] < psutil.boot_time():
        return None
    return facts["pid"] if session_members(facts["pid"]) else None


def session_members(session: int, spare: Collection[int] = ()) -> list[psutil.Process]:
    """All living processes of a session."""
    members = []
    for process in psutil.process_iter():
        try:
            if process.pid not in spare and os.getsid(process.pid) == session and process.status() != "zombie":
                members.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return members


def end_session(session: int, spare: Collection[int] = ()) -> None:
    """Asks every process of the session to end, waits, and kills what is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in session_members(session, spare):
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        deadline = time.monotonic() + END_SECONDS
        while session_members(session, spare) and time.monotonic() < deadline:
            with suppress(ChildProcessError):  # reap our own children, or they stay as zombies
                os.waitpid(-1, os.WNOHANG)
            time.sleep(0.1)
        if not session_members(session, spare):
            return


def _say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


def spawn(command: list[str], log: Path, environment: Mapping[str, str]) -> int:
    """Starts a supervisor in a session of its own, and returns its process id. No other user can read what it and its
    services write."""
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )
    return process.pid
