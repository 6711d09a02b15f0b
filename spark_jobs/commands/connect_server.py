"""The warm Spark Connect server: a driver that merges into scratch tables until it is warm, then serves sessions.

Spark's own main class gives each session a class loader of its own, and Spark keeps compiled code by class loader. Each
attempt has a session of its own, so it would compile a MERGE's hundred classes again: a third to a half of a small
batch's time (docs/performance.md). Lakemark's sessions bring no classes along, so here they share the server's loader.

spark-submit starts it: see `include.installation.spark_server`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from include.jobs.spark_command import CLIENT_ONLY
from spark_jobs.commands.warm_up import warm_up

_LOOK_SECONDS = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="connect_server", description=__doc__.splitlines()[0])
    parser.add_argument("--warm-up", type=int, default=0, metavar="N", help="merge N batches before it serves")
    parser.add_argument(
        "--events-max-bytes", type=int, metavar="BYTES", help="keep so much of Spark's event log; remove what is older"
    )
    options = parser.parse_args()
    sys.path.pop(0)  # this file's own folder: its modules would hide other packages of the same names
    for name in CLIENT_ONLY:
        os.environ.pop(name, None)  # the process that starts this server may be a client of another one
    jvm = os.getppid()
    spark = SparkSession.builder.getOrCreate()
    if options.warm_up:
        began = time.monotonic()
        warm_up(spark.newSession(), options.warm_up)
        print(f"warm after {time.monotonic() - began:.1f} s", flush=True)
    # PySpark has no other way to start it later (as a plugin it would start before everything else).
    assert spark._jvm is not None, "a driver has a JVM"
    spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(spark._jsc.sc())
    print("serving", flush=True)
    events = spark.conf.get("spark.eventLog.dir", None)
    while os.getppid() == jvm:  # the JVM is the service, and this process must not outlive it
        if events and options.events_max_bytes:
            keep_newest(Path(events.removeprefix("file://")), options.events_max_bytes)
        time.sleep(_LOOK_SECONDS)


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
