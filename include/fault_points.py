"""Named places in the protocol where a test kills or stops the real process. Only the environment arms them.

`LAKEMARK_TEST_FAULT=POINT=ACTION[@N]` arms one point of a process (and of its children). When the process reaches the
point for the Nth time (by default the first), it sends itself SIGKILL (`kill`) or SIGSTOP (`stop`). An unarmed point
costs one comparison with None. Delta's commit happens in the JVM, where this code cannot mark points: tests reach it
with an agent.
"""

from __future__ import annotations

import os
import signal
from typing import Literal, get_args

from include.settings import armed_fault

FaultPoint = Literal[
    "plan.begins",
    "plan.decided",  # but not recorded
    "plan.recorded",  # the answer is lost
    "attempt.before_read",
    "attempt.after_read",
    "attempt.judged",  # and recorded; nothing that was decoded has landed
    "attempt.part_landed",  # a table before the point (with @N: the Nth), but not the point
    "attempt.before_merge",
    "lane.decided",  # without Spark: all files are written, and no commit names them
    "attempt.landed",  # the answer is lost
    "settle.begins",
    "settle.decided",  # half done: the log is read, and nothing is recorded
    "settle.recorded",
    "sink.taken",  # every other delivery to it has lost it, and nothing has changed there
    "sink.written",  # the rows (of a delivery in two steps: what comes first) are there, and nobody sees them
    "sink.committed",  # the answer is lost
    "sink.prepared",  # its transaction (with @N: the Nth sink's) is prepared, and the lake's commit is not made
    "sink.landed",  # the lake's commit is made, and no prepared transaction has ended
    "generation.part_fenced",  # a fence (with @N: the Nth) has landed: the target's, which decides, is the first
    "generation.fenced",  # all of them have, and the ledger does not know it
    "savepoint.begun",  # it is decided, and nothing of it is there
    "savepoint.table_saved",  # a table of it (with @N: the Nth) is there, and the manifest is not
    "savepoint.published",  # the answer is lost
    "clone.table_made",  # a table of the new pipeline (with @N: the Nth): the target, which decides, is the first
    "promotion.saved",  # both pipelines stand equally far, their rows are kept, and nothing is decided
    "promotion.changed",  # the rows are there, and the pipeline file is not written
    "rehearsal.cloned",  # the pipeline that lives for a while is there
    "savepoint.manifest_removed",  # it is dropped, and its files are there
    "rebuild.set_aside",  # the old ledger is moved away, and the new one is not written
]
FAULT_POINTS: tuple[FaultPoint, ...] = get_args(FaultPoint)
_OF_SAVEPOINTS = ("savepoint.", "clone.", "promotion.", "rehearsal.")
OF_PIPELINES = tuple(point for point in FAULT_POINTS if not point.startswith(_OF_SAVEPOINTS))
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class _Armed:
    def __init__(self, text: str) -> None:
        self.point, _, action = text.partition("=")
        name, _, nth = action.partition("@")
        self.passes_left = int(nth or 1)
        if self.point not in FAULT_POINTS or name not in _SIGNALS:
            raise ValueError(f"LAKEMARK_TEST_FAULT: no such point or action: {text!r}")
        self.signal = _SIGNALS[name]

    def passed(self, point: str) -> None:
        if point == self.point:
            self.passes_left -= 1
            if self.passes_left == 0:
                os.kill(os.getpid(), self.signal)


_text = armed_fault()
_ARMED = _Armed(_text) if _text else None


def fault_point(point: str) -> None:
    """Marks a fault point in the code. Kills or stops the process if a test has armed it."""
    if _ARMED is not None:
        _ARMED.passed(point)
