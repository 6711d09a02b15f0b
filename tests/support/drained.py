"""One run of a group without Airflow, as the task `drain` does it: prints what became of each turn, as JSON lines.

    python -m tests.support.drained MEMBER... [--hopeless MEMBER...]

A run that gives up is tried again, and a member whose turn has failed has a run of its own, with tries as Airflow has
them; those that no run can serve have none. A fault point that the environment names is for the turns of the first try
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from include.jobs.drain import Drain
from include.jobs.fork import import_job
from include.jobs.member_worker import MemberWorker
from include.jobs.runner import run_job
from include.pipeline_file import find_pipeline
from include.protocol.draining import Due
from include.protocol.errors import LakemarkError, TerminalError
from include.protocol.runs import WholeRun
from include.settings import Settings

_TRIES = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="drained")
    parser.add_argument("members", nargs="+")
    parser.add_argument("--hopeless", nargs="*", default=[])
    options = parser.parse_args()
    import_job()
    for name in drained([*options.members, *options.hopeless]):
        if name not in options.hopeless:
            say({"alone": name, "error": run_alone(Settings.from_environment(), name)})
    return 0


def drained(members: list[str]) -> list[str]:
    """Those whose turns have failed."""
    began, suspects = time.monotonic(), set[str]()
    for _ in range(_TRIES):
        drain, failed = drain_of(Settings.from_environment(), members), list[str]()
        try:
            for ended in drain.run([Due(0, name, name in suspects) for name in members]):
                error = ended.error and type(ended.error).__name__
                seconds = time.monotonic() - began
                say({"member": ended.member, "error": error, "why": str(ended.error or ""), "seconds": seconds})
                failed += [ended.member] if error else []
            return failed
        except LakemarkError as error:
            say({"shared": str(error)})
            suspects.update(drain.suspects)
        finally:
            os.environ.pop("LAKEMARK_TEST_FAULT", None)
    return []


def drain_of(settings: Settings, members: list[str]) -> Drain:
    of = {name: find_pipeline(name, settings.pipelines, settings.environment) for name in members}
    return Drain(
        start=lambda: MemberWorker(settings, "test"),
        has_code=lambda name: of[name].brings_code,
        variables=lambda name: {},
        listen=lambda name, fact: None,
        log=lambda name, line: print(f"{name}: {line}", file=sys.stderr),
    )


def say(fact: dict[str, object]) -> None:
    print(json.dumps(fact), flush=True)


def run_alone(settings: Settings, name: str) -> str | None:
    """The error that is left in the end."""
    error: LakemarkError | None = None
    for _ in range(_TRIES):
        try:
            run_job(settings, name, WholeRun(), "test", lambda fact: None, lambda line: print(line, file=sys.stderr))
        except TerminalError as terminal:
            return type(terminal).__name__
        except LakemarkError as failure:
            error = failure
        else:
            return None
    return error and type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
