"""Does whole runs of a group's pipelines, one after the other, as another process names them.

That process writes a file of JSON lines while it goes on: `{"member": NAME, "variables": {...}}` asks for a run, with
the connections that its pipeline names as variables of the environment, and `{"end": true}` says that there is no more.
Each line of this job's journal says in `member` whose it is, and `{"member": NAME, "ended": true}` is the last one of a
run, whether it has failed or not. `{"member": NAME, "asks": SYSTEM}` says that the run waits for another system now;
null instead of it, that it waits no more. A pipeline that brings code of its own must be the only one: the process
keeps what that code leaves behind.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

from pyspark.sql import SparkSession

from include.lake.stores import lines_at
from include.lake.uri import LakeUri
from include.outside import heard_by
from include.pipeline_file import find_pipeline
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.settings import Settings
from spark_jobs.commands.runs import Runs, SharedSession
from spark_jobs.engine.facts import SayFact

_LOOK_SECONDS = 0.02
Open = Callable[[Settings], AbstractContextManager[SparkSession]]


def run_members(inbox: str, open_session: Open, started_by: str, say: SayFact) -> None:
    """Does what the file asks for, until it says that there is no more.

    Args:
        inbox: the file's URI.
    """
    settings = Settings.from_environment()
    with closing(SharedSession(lambda: open_session(settings))) as shared:
        for asked in _asked(inbox):
            name = asked["member"]
            with _variables(asked["variables"]):
                tell = partial(_say_of, name, say)
                try:
                    with heard_by(partial(_say_asks, tell)):
                        _run(name, shared, started_by, tell)
                except LakemarkError as error:
                    tell(error.facts())
                    print(error, file=sys.stderr, flush=True)
                    shared.close()  # it may be the session that has failed
            say({"member": name, "ended": True})


def _run(name: str, shared: SharedSession, started_by: str, say: SayFact) -> None:
    settings = Settings.from_environment()
    pipeline = find_pipeline(name, settings.pipelines, settings.environment)
    Runs(settings, shared, started_by, say).whole_run(pipeline)


def _say_of(name: str, say: SayFact, fact: JsonObject) -> None:
    say({"member": name, **fact})


def _say_asks(say: SayFact, system: str | None) -> None:
    say({"asks": system})


def _asked(inbox: str) -> Iterator[JsonObject]:
    lines = lines_at(LakeUri(inbox))
    while True:
        new = lines.new()
        for line in new:
            asked = json.loads(line)
            if "end" in asked:
                return
            yield asked
        if not new:
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _variables(given: Mapping[str, str]) -> Iterator[None]:
    """Sets variables, and afterwards these alone as they were: a session that is opened meanwhile sets others."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
