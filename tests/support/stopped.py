"""Processes that are stopped in the middle (SIGSTOP), miss everything, and go on later (SIGCONT)."""

from __future__ import annotations

import signal
import subprocess

import psutil

from tests.support.waiting import wait_until


def family(process: subprocess.Popen) -> list[psutil.Process]:
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
        member.kill()


def stopped(process: subprocess.Popen) -> psutil.Process:
    """The member of the process's family that has been stopped, once there is one."""

    def find() -> psutil.Process | None:
        assert process.poll() is None, process.communicate()
        return next((p for p in family(process) if p.status() == psutil.STATUS_STOPPED), None)

    return wait_until(find, 120)


def resumed(process: subprocess.Popen, member: psutil.Process) -> tuple[int, str]:
    member.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=200)
    return process.returncode, said
