"""Processes that are stopped in the middle (SIGSTOP), miss everything, and go on later (SIGCONT)."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress

import psutil

from tests.support.waiting import wait_until


def family(process: subprocess.Popen) -> list[psutil.Process]:
    """A process and all that it has started; each of them may end at any moment."""
    try:
        return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def was_killed(code: int, said: str) -> bool:
    """Whether a command, or the job that it started, was ended by SIGKILL."""
    return code == -signal.SIGKILL or "killed by SIGKILL" in said


def end(process: subprocess.Popen) -> None:
    """Ends a process and all that it has started."""
    for member in family(process):
        with suppress(psutil.NoSuchProcess):
            member.kill()


def asleep(process: subprocess.Popen) -> psutil.Process | None:
    """The member of the process's family that is stopped at this moment."""
    for member in family(process):
        with suppress(psutil.NoSuchProcess):
            if member.status() == psutil.STATUS_STOPPED:
                return member
    return None


def is_over(process: psutil.Process) -> bool:
    """Whether a process has ended, also one whose parent has not asked how."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stopped(process: subprocess.Popen) -> psutil.Process:
    """The member of the process's family that has been stopped, once there is one."""

    def find() -> psutil.Process | None:
        assert process.poll() is None, process.communicate()
        return asleep(process)

    return wait_until(find, 120)


def resumed(process: subprocess.Popen, member: psutil.Process) -> tuple[int, str]:
    member.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=200)
    return process.returncode, said
