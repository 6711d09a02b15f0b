"""Faults of processes: killed, stopped, and two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial

import psutil

from include.participants.catalog import Catalog
from tests.soak.losses import ledger_lost
from tests.soak.victim import RUN_SECONDS_MAX, Victim
from tests.support.stopped import asleep, was_killed
from tests.support.waiting import wait_until


def killed_at(point: str, victim: Victim) -> bool:
    if point == "rebuild.set_aside":
        return ledger_lost("torn", victim, LAKEMARK_TEST_FAULT=f"{point}=kill")
    if point.startswith("generation."):
        process = victim.start("reset", victim.pipeline.name, "--reason", "soak", LAKEMARK_TEST_FAULT=f"{point}=kill")
        process.communicate(timeout=RUN_SECONDS_MAX)
        victim.command("reset", victim.pipeline.name, "--reason", "soak", code=1)  # ended as it was begun
        return process.returncode == -signal.SIGKILL
    parts = len(Catalog.of(victim.pipeline).before)
    match point:
        case "attempt.part_landed":
            return dies_at(point, victim, victim.chance.randint(1, parts))
        case "lane.decided":  # once for each table
            return dies_at(point, victim, victim.chance.randint(1, parts + 1), LAKEMARK_MERGE_ENGINE="lane")
    return dies_at(point, victim)


def killed_at_random(victim: Victim) -> bool:
    """The command and its job, some time after the batch was planned."""
    process = victim.run()
    _later(victim.chance.uniform(0.5, 7), lambda: _kill_all(process))
    process.communicate(timeout=RUN_SECONDS_MAX)
    return process.returncode == -signal.SIGKILL


def service_killed(name: str, victim: Victim) -> bool:
    process = victim.run()
    pid = victim.stack.service_pid(name)
    _later(victim.chance.uniform(1, 6), partial(_signal, pid, signal.SIGKILL))
    process.communicate(timeout=RUN_SECONDS_MAX)
    wait_until(lambda: victim.stack.service_pid(name) not in (None, pid), 90)
    victim.stack.wait_for(name, lambda text: None)
    return True


def service_frozen(name: str, victim: Victim) -> bool:
    """It stands still for some seconds in the middle of a run."""
    pid = victim.stack.service_pid(name)
    process = victim.run()
    delay = victim.chance.uniform(1, 4)
    _later(delay, partial(_signal, pid, signal.SIGSTOP))
    timer = _later(delay + 3, partial(_signal, pid, signal.SIGCONT))
    process.communicate(timeout=RUN_SECONDS_MAX)
    timer.join()
    return True


def zombie(point: str, victim: Victim, **environment: str) -> bool:
    """An attempt is stopped before its commit, another one lands, the first goes on."""
    process = victim.run(LAKEMARK_TEST_FAULT=f"{point}=stop", **environment)
    sleeper = stopped(process)
    if sleeper is None:
        return False  # there was nothing to do
    victim.command("run", victim.pipeline.name, code=None)
    if victim.chance.random() < 0.3:
        victim.command("reset", victim.pipeline.name, "--reason", "soak")
    sleeper.send_signal(signal.SIGCONT)
    process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def two_at_once(victim: Victim) -> bool:
    processes = [victim.run(), victim.run()]
    for process in processes:
        process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def reset_in_the_middle(victim: Victim) -> bool:
    process = victim.run()
    state = victim.world.coordinator(victim.pipeline).ledger.state()
    last = max(0, state.committed_through)
    back = victim.chance.choice(["committed", str(max(0, last - 2))]) if state.batches else "committed"
    _wait(victim.chance.uniform(0, 5), process)
    said = victim.command("reset", victim.pipeline.name, "--from", back, "--reason", "soak", code=None)
    process.communicate(timeout=RUN_SECONDS_MAX)
    return "begins" in said


def dies_at(point: str, victim: Victim, nth: int = 1, **environment: str) -> bool:
    """Whether a run was killed at a fault point, when it passed it for the nth time."""
    process = victim.run(LAKEMARK_TEST_FAULT=f"{point}=kill@{nth}", **environment)
    said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    return was_killed(process.returncode, said)


def stopped(process: subprocess.Popen) -> psutil.Process | None:
    """Waits until a process of this family stands still; None: it has ended before."""

    def found() -> psutil.Process | bool:
        if process.poll() is not None:
            return True
        return asleep(process) or False

    sleeper = wait_until(found, RUN_SECONDS_MAX)
    return None if isinstance(sleeper, bool) else sleeper


def _later(seconds: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def _wait(seconds: float, process: subprocess.Popen) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None and psutil.pid_exists(pid):
        os.kill(pid, number)


def _kill_all(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
