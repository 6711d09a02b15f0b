"""The command line of a job, by where Spark is: `local`, `spark-submit` or `connect`. The job's code is the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from include.artifact import build_artifact
from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import find_java
from include.installation.spark_server import driver_options
from include.settings import Settings

# A driver on a machine of its own is reached by its cluster, so it must not bind to the loopback address.
_ONE_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory")

# A process that has opened a Spark Connect session sets these; inherited, they would make a client of a driver.
CLIENT_ONLY = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


@dataclass(frozen=True)
class SparkCommand:
    command: list[str]
    environment: Mapping[str, str]


def spark_command(settings: Settings, arguments: Sequence[str]) -> SparkCommand:
    """How to start `spark_jobs.merge_job` with these arguments where the settings say Spark is."""
    child = [sys.executable, "-m", "spark_jobs.merge_job", *arguments]
    match settings.runner:
        case "connect":
            return SparkCommand([*child, "--remote", str(settings.spark_remote)], settings.child_environment())
        case "local":
            master = ["--master", settings.spark_master] if settings.spark_master else []
            return SparkCommand([*child, *master], settings.child_environment())
        case "spark-submit":
            return _submitted(settings, arguments)


def _submitted(settings: Settings, arguments: Sequence[str]) -> SparkCommand:
    artifact, entry = build_artifact(settings)
    options = {k: v for k, v in driver_options(settings.jars, settings.home).items() if k not in _ONE_MACHINE}
    properties = ["--properties-file", str(settings.spark_properties)] if settings.spark_properties else []
    command = [
        str(pyspark_home() / "bin" / "spark-submit"),
        *("--master", settings.spark_master or "local[*]", "--deploy-mode", settings.spark_deploy_mode),
        *("--name", "lakemark", *properties),
        *(part for key, value in options.items() for part in ("--conf", f"{key}={value}")),
        # The driver finds these on its class path; executors fetch them from the driver.
        *("--jars", ",".join(map(str, jar_paths(settings.jars, "spark")))),
        *("--py-files", str(artifact), str(entry), *arguments, "--submitted"),
    ]
    java = find_java(settings.java, settings.home / "java")
    places = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(pyspark_home()), "PYSPARK_PYTHON": sys.executable}
    environment = settings.child_environment(**places)
    for name in CLIENT_ONLY:
        environment.pop(name, None)
    return SparkCommand(command, environment)
