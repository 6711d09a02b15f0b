"""The warm Spark Connect server: a driver that serves sessions, and merges into scratch tables until one comes.

Spark's own main class gives each session a class loader of its own, and Spark keeps compiled code by class loader. Each
attempt has a session of its own, so it would compile a MERGE's hundred classes again: a third to a half of a small
batch's time (docs/performance.md). Lakemark's sessions bring no classes along, so here they share the server's loader.

spark-submit starts it: see `include.installation.spark_server`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from include.jobs.spark_command import CLIENT_ONLY
from spark_jobs.commands.recycling import Limits, Recycling, Use
from spark_jobs.commands.warm_up import warm_up

_LOOK_SECONDS = 1.0
# Who waits for a server tries every second (`spark_jobs.engine.connection`), and its work goes before a warm-up: that
# would have the cores for the first seconds.
_CLIENTS_TRY_SECONDS = 2.0
_CALLS_END_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="connect_server", description=__doc__.splitlines()[0])
    parser.add_argument("--warm-up", type=int, default=0, metavar="N", help="merge N batches until a session comes")
    parser.add_argument(
        "--events-max-bytes", type=int, metavar="BYTES", help="keep so much of Spark's event log; remove what is older"
    )
    parser.add_argument("--recycle-hours", type=float, metavar="H", help="end in a quiet moment, if it is older")
    parser.add_argument("--recycle-mb", type=int, metavar="MB", help="end in a quiet moment, if it holds more memory")
    options = parser.parse_args()
    sys.path.pop(0)  # this file's own folder: its modules would hide other packages of the same names
    for name in CLIENT_ONLY:
        os.environ.pop(name, None)  # the process that starts this server may be a client of another one
    jvm, began = os.getppid(), time.monotonic()
    spark = SparkSession.builder.getOrCreate()
    # PySpark has no other way to start it here (as a plugin it would start before everything else).
    assert spark._jvm is not None, "a driver has a JVM"
    service = getattr(getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    context = spark._jsc.sc()
    service.start(context)
    print("serving", flush=True)
    if options.warm_up:
        _warm_up(spark, service, options.warm_up)
    events = spark.conf.get("spark.eventLog.dir", None)
    recycling = Recycling(Limits(options.recycle_hours * 3600, options.recycle_mb << 20))
    # The JVM is the service, and this process must not outlive it. One that was short of memory may live on without
    # its Spark: it ends then, and its supervisor starts another one.
    while os.getppid() == jvm and not context.isStopped():
        age = time.monotonic() - began
        if (why := recycling.why_now(age, _resident_bytes(jvm), partial(_use, service))) is not None:
            print(f"ends, for a fresh server to take its place: {why}", flush=True)
            break
        if events and options.events_max_bytes:
            keep_newest(Path(events.removeprefix("file://")), options.events_max_bytes)
        time.sleep(_LOOK_SECONDS)
    if os.getppid() == jvm:
        _end(jvm, service)


def _end(jvm: int, service: Any) -> None:  # Any: as below
    """Ends the JVM, which would serve on without this process: threads of Connect's service hold it. Calls that have
    begun come to their end. Later ones find no server, and wait for its successor."""
    with suppress(Exception):  # of a JVM without memory, whatever it is
        server = service.server()
        server.shutdown()
        _wait(server.isTerminated, _CALLS_END_SECONDS)
    os.kill(jvm, signal.SIGTERM)


def _use(service: Any) -> Use:  # Any: as below
    last_used = max((s.lastAccessTimeMs() for s in _each(service.sessionManager().listActiveSessions())), default=0)
    return Use(service.executionManager().listActiveExecutions().isRight(), time.time() - last_used / 1000)


def _each(scala: Any) -> Iterator[Any]:  # Any: as below
    return (scala.apply(place) for place in range(scala.size()))


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux, or it is just ending
        return 0


def _warm_up(spark: SparkSession, service: Any, batches: int) -> None:  # Any: py4j gives the JVM's classes no types
    """What goes wrong here is told, and ends nothing: real batches need no warm server."""
    began = time.monotonic()
    _wait(partial(_has_sessions, service), _CLIENTS_TRY_SECONDS)
    try:
        scratch = spark.sparkContext.getConf().get("spark.local.dir")  # what is left there goes at the next start
        merged = warm_up(spark.newSession(), batches, scratch, is_wanted=lambda: _has_sessions(service))
    except Exception:
        traceback.print_exc()
    else:
        print(f"merged {merged} batches to warm up, in {time.monotonic() - began:.1f} s", flush=True)


def _has_sessions(service: Any) -> bool:  # Any: as above
    """Whether a client has one: its work is a better warm-up, and gets the cores for itself."""
    return not service.sessionManager().listActiveSessions().isEmpty()


def _wait(until: Callable[[], bool], seconds_max: float) -> None:
    deadline = time.monotonic() + seconds_max
    while not until() and time.monotonic() < deadline:
        time.sleep(0.1)


def keep_newest(folder: Path, bytes_max: int) -> None:
    """Removes the oldest files of Spark's rolling event log, of all applications that wrote there."""
    rolled = sorted(folder.glob("*/events_*"), key=lambda file: file.stat().st_mtime, reverse=True)
    kept = 0
    for file in rolled:
        kept += file.stat().st_size
        if kept > bytes_max and file != rolled[0]:
            file.unlink()
            if not any(file.parent.glob("events_*")):  # its application ended long ago
                shutil.rmtree(file.parent)


if __name__ == "__main__":
    main()
