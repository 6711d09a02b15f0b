"""Commands without a broker: a stand-in says what Kafka holds (`six_batches`). The turn of who was killed ends soon.

In this process, where a command costs no start of Python; or, if it is to be killed or stopped, in one of its own:
`python -m tests.support.without_kafka ...`.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import timedelta

import pytest

from include.cli.command import main
from include.control import coordinator, settling, turns
from include.delivery import database
from tests.support.six_batches import IN_KAFKA

LOST = "LAKEMARK_TEST_LOST"  # names how many offsets Kafka has lost at the beginning of every partition
COMMAND = (sys.executable, "-m", "tests.support.without_kafka")


def command(*arguments: str, fault: str = "") -> subprocess.CompletedProcess:
    """The command, as it ended. Args: fault: what kills it."""
    if not fault:
        return _within(arguments)
    env = {**os.environ, "LAKEMARK_TEST_FAULT": f"{fault}=kill"}
    return subprocess.run([*COMMAND, *arguments], env=env, capture_output=True, text=True, check=False)


def _within(arguments: tuple[str, ...]) -> subprocess.CompletedProcess:
    out, err = io.StringIO(), io.StringIO()
    with stand_in(), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@contextmanager
def stand_in() -> Iterator[None]:
    lost = int(os.environ.get(LOST, "0"))
    held = {tp: replace(extent, log_start_offset=lost) for tp, extent in IN_KAFKA.partitions.items()}
    there = IN_KAFKA if not lost else replace(IN_KAFKA, partitions=held)
    with pytest.MonkeyPatch.context() as patch:
        for module in (settling, coordinator):
            patch.setattr(module, "source_extent", lambda declared: there)
        patch.setattr(database, "STILL_SECONDS", 2.0)
        patch.setattr(turns, "LENGTH", timedelta(seconds=2))
        patch.setattr(turns, "_RENEWED_AFTER", timedelta(seconds=0.5))
        yield


if __name__ == "__main__":
    with stand_in():
        sys.exit(main())
