"""The warm Spark Connect server: one JVM that stays up, so that a small batch does not pay for a cold start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import Java


def driver_options(jars: Sequence[Path], home: Path) -> dict[str, str]:
    """Spark's options for any driver that runs Lakemark's jobs on one machine."""
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(home / "spark" / "warehouse"),
        "spark.local.dir": str(home / "spark" / "scratch"),
        "spark.sql.catalogImplementation": "in-memory",
    }


@dataclass(frozen=True)
class SparkServer:
    java: Java
    jars: Path
    home: Path
    port: int
    master: str = "local[*]"

    @property
    def remote(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """Runs the server in the foreground, by way of spark-submit (pip's PySpark has no start script)."""
        options = {
            **driver_options(jar_paths(self.jars, "spark"), self.home),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            # A killed client's session, and what it keeps in memory, goes soon.
            "spark.connect.session.manager.defaultSessionTimeout": "10m",
        }
        return [
            str(pyspark_home() / "bin" / "spark-submit"),
            *("--master", self.master, "--name", "lakemark"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(part for key, value in options.items() for part in ("--conf", f"{key}={value}")),
            "spark-internal",
        ]

    def environment(self) -> dict[str, str]:
        return {"JAVA_HOME": str(self.java.home), "SPARK_HOME": str(pyspark_home())}
