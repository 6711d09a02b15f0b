"""The command that starts a job, for each runner: `local`, `spark-submit` or `connect`. The job's code is the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import find_java
from include.installation.spark_classes import spark_classes
from include.installation.spark_server import driver_options
from include.jobs.artifact import build_artifact
from include.settings import Settings

# The cluster must reach a driver on another machine, so that driver must not bind to the loopback address. The cluster
# also decides how much memory and how many partitions there are.
_ONE_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory", "spark.sql.shuffle.partitions")

# Where the lake's store is. Every machine of the cluster finds the login by its own ways: the master shows a driver's
# environment.
_OF_STORE = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")

# A process that has opened a Spark Connect session sets these. A driver that inherited them would be a client.
CLIENT_ONLY = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


@dataclass(frozen=True)
class SparkCommand:
    command: list[str]
    environment: Mapping[str, str]
    # Of `spark_jobs.merge_job`, if a fork of a process like this one can be the job: a client of a Spark server.
    forkable: Sequence[str] | None = None


def spark_command(settings: Settings, arguments: Sequence[str]) -> SparkCommand:
    """How to start `spark_jobs.merge_job` with these arguments where the settings say Spark is."""
    child = [sys.executable, "-m", "spark_jobs.merge_job"]
    match settings.runner:
        case "connect":
            given = [*arguments, "--remote", str(settings.spark_remote)]
            return SparkCommand([*child, *given], settings.child_environment(), forkable=given)
        case "local":
            master = ["--master", settings.spark_master] if settings.spark_master else []
            return SparkCommand([*child, *arguments, *master], settings.child_environment())
        case "spark-submit":
            return _submitted(settings, arguments)


def _submitted(settings: Settings, arguments: Sequence[str]) -> SparkCommand:
    properties = ["--properties-file", str(settings.spark_properties)] if settings.spark_properties else []
    command = [
        str(pyspark_home() / "bin" / "spark-submit"),
        *("--master", settings.spark_master or "local[*]", "--deploy-mode", settings.spark_deploy_mode),
        *properties,
        *(part for key, value in _cluster_options(settings).items() for part in ("--conf", f"{key}={value}")),
        *_code(settings, arguments),
    ]
    java = find_java(settings.java, settings.home / "java")
    places = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(pyspark_home()), "PYSPARK_PYTHON": sys.executable}
    environment = settings.child_environment(**places)
    for name in CLIENT_ONLY:
        environment.pop(name, None)
    return SparkCommand(command, environment)


@dataclass(frozen=True)
class ClusterSubmission:
    """What a master is asked to run on one of its workers."""

    arguments: list[str]  # of spark-submit there
    properties: Mapping[str, str]  # of the driver's JVM
    environment: Mapping[str, str]


def cluster_submission(settings: Settings, arguments: Sequence[str], variables: Iterable[str]) -> ClusterSubmission:
    """The job as a driver on a standalone cluster.

    Args:
        variables: of the environment, named in the pipeline's file. Of all others, only Lakemark's own are passed on,
            and where the lake's store is.
    """
    options = _cluster_options(settings) | _properties(settings.spark_properties)
    master = str(settings.spark_master)
    every = settings.child_environment()
    every.pop("LAKEMARK_SPARK_TOKEN", None)  # of another server
    ours = {k: v for k, v in every.items() if k.startswith("LAKEMARK_") or k in (*variables, *_OF_STORE)}
    return ClusterSubmission(
        # Without the options: the JVM that it runs in has been started with them.
        arguments=["--master", master, "--deploy-mode", "client", *_code(settings, arguments)],
        properties={"spark.master": master, "spark.app.name": "lakemark", **options},
        environment={"PYSPARK_PYTHON": sys.executable, **ours},
    )


def _cluster_options(settings: Settings) -> dict[str, str]:
    options = driver_options(settings.jars, settings.home, settings.lake)
    if settings.lake.scheme == "s3":
        # An executor fetches the code from the lake before it has the JARs that the driver brings.
        options["spark.executor.extraClassPath"] = ":".join(map(str, jar_paths(settings.jars, "s3a")))
    return {k: v for k, v in options.items() if k not in _ONE_MACHINE}


def _code(settings: Settings, arguments: Sequence[str]) -> list[str]:
    """What to run: the arguments of spark-submit from the name on."""
    artifact, entry = build_artifact(settings)
    # The driver finds the JARs on its class path; executors fetch them from the driver.
    jars = ",".join(map(str, [*jar_paths(settings.jars, "spark"), spark_classes(settings.jars)]))
    return ["--name", "lakemark", "--jars", jars, "--py-files", str(artifact), str(entry), *arguments, "--submitted"]


def _properties(path: Path | None) -> dict[str, str]:
    """Reads a file of Spark's settings: `key value` or `key=value` on a line, `#` for comments."""
    lines = map(str.strip, path.read_text().splitlines()) if path else ()
    pairs = (re.split(r"\s*[=\s]\s*", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)
