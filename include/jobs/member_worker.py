"""A job that does whole runs of a group's pipelines, one at a time, as its caller names them
(`spark_jobs.commands.members`)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack

from include.jobs.runner import ending_of, start_job
from include.lake.stores import lines_at
from include.lake.uri import LakeUri
from include.protocol.json_data import JsonObject
from include.scratch import scratch_folder
from include.settings import Settings

_READ_BYTES = 1 << 16  # as much as a pipe holds
_END_SECONDS, _LOOK_SECONDS = 10.0, 0.02


class MemberWorker:
    """A worker. It is a child of its caller, and ends with it.

    Args:
        started_by: for the ledgers: who started it, and where to find that run.
    """

    def __init__(self, settings: Settings, started_by: str) -> None:
        self._scratch = ExitStack()
        folder = LakeUri(str(self._scratch.enter_context(scratch_folder())))
        places = [folder / name for name in ("inbox.jsonl", "journal.jsonl")]
        self._inbox, self._journal = map(lines_at, places)
        given = ["--members", str(places[0]), "--started-by", started_by, "--journal", str(places[1])]
        self._process = start_job(settings, given, {})
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""

    def give(self, member: str, variables: Mapping[str, str]) -> None:
        """Asks for a run of a member. Args: variables: of the environment, for this run only."""
        self._inbox.add(json.dumps({"member": member, "variables": dict(variables)}))

    def facts(self) -> list[JsonObject]:
        """What it has reported since the last call."""
        return [json.loads(line) for line in self._journal.new()]

    def logged(self) -> list[str]:
        """The lines that it has logged since the last call. If it has ended: all, also a last one without an end."""
        assert self._process.stdout is not None
        has_ended = self._process.poll() is not None
        new = self._process.stdout.read(_READ_BYTES)
        *lines, self._rest = (self._rest + (new or b"")).split(b"\n")
        if has_ended and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        return [line.decode(errors="replace") for line in lines]

    def ending(self) -> str | None:
        """How it has ended, which it does by itself only if it fails; None: it goes on."""
        code = self._process.poll()
        return None if code is None else ending_of(code) or "exit code 0"

    def dismiss(self) -> None:
        """Lets it end, as it has nothing to do."""
        self._inbox.add(json.dumps({"end": True}))
        deadline = time.monotonic() + _END_SECONDS
        while self.ending() is None and time.monotonic() < deadline:
            self.logged()  # a full pipe would hold it up
            time.sleep(_LOOK_SECONDS)

    def end(self) -> None:
        """Ends it at once. What it was at can do no harm: a batch that has not landed is attempted again (I5)."""
        self._process.kill()
        self._process.wait()
        self._scratch.close()
