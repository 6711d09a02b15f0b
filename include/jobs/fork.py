"""Starts a job as a fork of this process, where that has imported what a job needs.

Three quarters of a small job's CPU go into imports (docs/performance.md). An executor that imports them once, before it
forks its workers, saves them for every task and every job (`plugins/lakemark_warm_executor.py`). A forked job differs
from a started one in nothing that it could notice: it has an environment, descriptors, signal handlers and loggers of
its own, and ends without running what its parent has registered.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import random
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NoReturn, TextIO

from include.jobs.ending import end_with_parent
from include.lake.stores import connect_anew

_JOB = "spark_jobs.merge_job"
_USED_BY_JOBS = (  # what a job imports when it gets there
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.client.retries",
    "spark_jobs.engine.connection",
)
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
# Threads that a fork may leave behind: the allocator starts its own again.
_HARMLESS = {"jemalloc_bg_thd"}
_PARENTS_STREAMS: list[TextIO] = []  # of a forked job's parent


class ForkedJob:
    """A job that runs as a child. It has what the runner uses of `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: BinaryIO) -> None:
        self.pid, self.stdout = pid, stdout
        self._code: int | None = None

    def wait(self) -> int:
        """Its exit code; minus a signal's number if that has killed it."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.stdout.close()
        return self._code

    def poll(self) -> int | None:
        """As `wait`; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return None
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        """Ends it at once. A no-op after its end."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)  # it is no other process's id: nobody else waits for it


def import_job() -> None:
    """Imports what a job needs, for the forks of this process."""
    # NumPy's OpenBLAS would start a thread for every core, and a process with threads is not forked.
    given = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    try:
        for name in (_JOB, *_USED_BY_JOBS):
            importlib.import_module(name)
    finally:  # it is no setting of tasks and jobs
        del os.environ[_BLAS_THREADS]
        if given is not None:
            os.environ[_BLAS_THREADS] = given


def can_fork() -> bool:
    """Whether this process has imported what a job needs, and has no thread that a fork would lack."""
    return sys.platform == "linux" and _JOB in sys.modules and _threads() <= _HARMLESS


def fork_job(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> ForkedJob:
    """Starts a job with these arguments of `spark_jobs.merge_job`.

    Args:
        environment: all of the job's variables. folder: in which it works.
    """
    parent = os.getpid()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_job(sys.modules[_JOB], arguments, environment, output=write, folder=folder, parent=parent)
    os.close(write)
    return ForkedJob(pid, os.fdopen(read, "rb", buffering=0))


def _threads() -> set[str]:
    """The names of this process's threads, without the one that asks."""
    tasks, this = Path("/proc/self/task"), str(os.getpid())
    return {(task / "comm").read_text().strip() for task in tasks.iterdir() if task.name != this}


def _be_job(
    job: ModuleType,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    output: int,
    folder: Path,
    parent: int,
) -> NoReturn:
    """Runs the job in the child, and ends it. Nothing of the parent's stack is unwound here."""
    code = 1
    try:
        end_with_parent()
        if os.getppid() != parent:  # it has ended before it could be asked
            os._exit(1)
        atexit._clear()  # what the parent has registered is the parent's to do
        _begin_anew(arguments, environment, output, folder)
        code = job.main(list(arguments))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _begin_anew(arguments: Sequence[str], environment: Mapping[str, str], output: int, folder: Path) -> None:
    """Makes the state of the process what it is in one that was started by itself."""
    _name(arguments)  # before the environment changes: its place in memory is where the name goes
    # The parent's streams own these descriptors, and would close them when nothing refers to them any more. The next
    # file would get such a number: the journal, into which the job would log then.
    _PARENTS_STREAMS.extend((sys.stdin, sys.stdout, sys.stderr))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, these are open to the end
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [_JOB, *arguments]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.excepthook = sys.__excepthook__
    random.seed()  # forks of one process would draw the same
    _reset_loggers()
    connect_anew()


def _reset_loggers() -> None:
    """The parent's handlers write to places that are the parent's. Without any, warnings go to standard error."""
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.filters.clear()
            logger.setLevel(logging.NOTSET)
            logger.propagate, logger.disabled = True, False
    logging.root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)


def _name(arguments: Sequence[str]) -> None:
    """Lets `ps` show what this process is, as it would for a started one. Airflow, whose worker this is, brings what
    that takes."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return
    setproctitle(" ".join([sys.executable, "-m", _JOB, *arguments]))
