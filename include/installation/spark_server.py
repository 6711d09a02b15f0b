"""The warm Spark Connect server: one JVM that stays up, so that a small batch does not pay for a cold start.

Its driver is `spark_jobs/commands/connect_server.py`, which warms up until the first session comes.

`lakemark up` runs it under its supervisor. `python -m include.installation.spark_server --bind ADDRESS --port PORT`
runs it in the foreground, for instance in a container.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from include.installation import spark_classes
from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import Java, find_java
from include.lake.stores import spark_options as spark_options_of
from include.lake.uri import LakeUri
from include.settings import PROJECT_ROOT, Settings

_MAIN = PROJECT_ROOT / "spark_jobs" / "commands" / "connect_server.py"
# An Avro record states the length of a part before the part, and the reader allocates that memory at once. A few bytes
# that claim gigabytes would end the JVM. So bytes that claim more than this are no record.
_AVRO_LIMITS = {"bytes.maxLength": 64 << 20, "string.maxLength": 64 << 20, "collectionItems.maxLength": 4_000_000}
# Java's regular expressions need a call per character, and a stack overflow ends the JVM: no `try` helps. This is
# enough for a record of a megabyte, the most that a broker takes by default. (The unused part takes no memory.)
_STACK = "256m"
# Spark makes classes for each query. Those of some hundred kinds of queries, as our tests have, fill the part for new
# code of the 240 MB that Java reserves by default; from then on it drops code, and compiles it again.
_CODE = "512m"
_JAVA_OPTIONS = " ".join(
    [
        f"-Xss{_STACK} -XX:ReservedCodeCacheSize={_CODE}",
        *(f"-Dorg.apache.avro.limits.{name}={most}" for name, most in _AVRO_LIMITS.items()),
    ]
)
# Live batches share the cores evenly, and have the first one at any time. What runs in the pool `background` takes what
# they leave, and at least a fifth. By default, Spark would serve the oldest job first, with all of its tasks: batches
# would wait for an OPTIMIZE of a large table.
_FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).with_name("fair_pools.xml").as_uri(),
}
# A killed client's statement ends half a minute later. By default it has its share of the cores for five to seven
# minutes more, beside the attempt that comes after it: the server sends to a client for so long before it must ask
# again, waits for so long until it does, and looks so often.
_STATEMENTS_END = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "15s",
    "spark.connect.execute.manager.detachedTimeout": "15s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
}
_EVENTS_MAX_BYTES = 256 << 20  # of Spark's event log, which `lakemark profile` reads: some thousand batches


def driver_options(jars: Path, home: Path, lake: LakeUri) -> dict[str, str]:
    """Spark's options for any driver that runs Lakemark's jobs on one machine."""
    class_path = [*jar_paths(jars, "spark"), spark_classes.spark_classes(jars)]
    class_path += jar_paths(jars, "s3a") if lake.scheme == "s3" else []
    return {
        **spark_classes.OPTIONS,
        **spark_options_of(lake),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraClassPath": ":".join(map(str, class_path)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        # These come before a cluster's own `extraJavaOptions`.
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": str(max(2, 2 * (os.cpu_count() or 1))),
        # A batch compiles about a hundred classes, and by default Spark keeps only a hundred in all.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # Every function of a column would ask the JVM several times where it was called, for the words of errors.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(home / "spark" / "warehouse"),
        "spark.local.dir": str(home / "spark" / "scratch"),
        "spark.sql.catalogImplementation": "in-memory",
    }


def events_folder(home: Path) -> Path:
    """Where the server's event log is."""
    return home / "spark" / "events"


@dataclass(frozen=True)
class SparkServer:
    settings: Settings
    java: Java
    port: int
    bind: str = "127.0.0.1"
    master: str = "local[*]"
    token: str | None = field(default=None, repr=False)  # what it asks of its clients; None: nothing

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """The command that runs the server in the foreground, with spark-submit (pip's PySpark has no start script)."""
        settings = self.settings
        events = events_folder(settings.home)
        events.mkdir(parents=True, exist_ok=True)
        options = {
            **driver_options(settings.jars, settings.home, settings.lake),
            **_FAIR,
            "spark.log.level": "WARN",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "true",
            "spark.eventLog.rolling.maxFileSize": "16m",  # before it is compressed, to about a sixth
            # Sessions bring no classes, so they can share the compiled ones (see `spark_jobs.commands.connect_server`).
            "spark.sql.artifact.isolation.enabled": "false",
            "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
            # Hadoop sets the permissions of files itself, and does not ask the process.
            "spark.hadoop.fs.permissions.umask-mode": "077",
            "spark.connect.grpc.binding.address": self.bind,
            "spark.connect.grpc.binding.port": str(self.port),
            # A killed client's session, and what it keeps in memory, goes soon.
            "spark.connect.session.manager.defaultSessionTimeout": "10m",
            **_STATEMENTS_END,
        }
        return [
            str(pyspark_home() / "bin" / "spark-submit"),
            *("--master", self.master, "--name", "lakemark"),
            *(part for key, value in options.items() for part in ("--conf", f"{key}={value}")),
            *(str(_MAIN), "--warm-up", str(settings.spark_warm_up_batches)),
            *("--events-max-bytes", str(_EVENTS_MAX_BYTES)),
            *("--recycle-hours", str(settings.spark_recycle_hours), "--recycle-mb", str(settings.spark_recycle_mb)),
        ]

    def environment(self) -> dict[str, str]:
        home = {"JAVA_HOME": str(self.java.home), "SPARK_HOME": str(pyspark_home())}
        if self.token is not None:  # not in the command, which every user of the machine can see
            home["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = self.token
        # The Python of its driver and its Python workers: this one has Lakemark and its requirements.
        return {**home, "PYSPARK_PYTHON": sys.executable}


def main() -> None:
    parser = argparse.ArgumentParser(prog="spark_server", description="Runs a Spark Connect server in the foreground.")
    parser.add_argument("--bind", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=15002)
    options = parser.parse_args()
    settings = Settings.from_environment()
    java = find_java(settings.java, settings.home / "java")
    token = settings.environment.get("LAKEMARK_SPARK_TOKEN") or None
    server = SparkServer(settings, java, options.port, options.bind, token=token)
    command = server.command()
    os.execve(command[0], command, settings.child_environment(**server.environment()))


if __name__ == "__main__":
    main()
