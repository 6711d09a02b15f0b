"""A job whose driver runs on a standalone Spark cluster: submitted, watched and ended through the master's REST server.

`spark-submit --deploy-mode cluster` takes no Python there; Spark's REST server does (docs: "Spark Standalone Mode, REST
API"), by running spark-submit on a worker. The job reports in the lake, in its journal.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Self

import requests

from include.jobs.spark_command import cluster_submission
from include.lake.stores import files_at, lines_at
from include.lake.uri import LakeUri
from include.pipeline_file import LANDING, find_pipeline, variables_of
from include.protocol.errors import RetryableError
from include.protocol.json_data import JsonObject
from include.settings import Settings
from include.sources.logins import connection_variables

_TIMEOUT_SECONDS = 30.0
_LINES, _RECORD = ".jsonl", ".json"
_LASTING = {"SUBMITTED", "RUNNING", "RELAUNCHING", "UNKNOWN"}  # of the states of Spark's DriverState
_FORGOTTEN = "not known to the master any more"
_UNREACHABLE = "the master does not answer"


@dataclass(frozen=True)
class DriverState:
    """The state of a driver: one of the master's words, or one of ours."""

    name: str

    @property
    def is_end(self) -> bool:
        return self.name not in _LASTING and self != UNREACHABLE

    @property
    def ending(self) -> str | None:
        """How it failed; None if it did not fail."""
        return None if self.name == "FINISHED" else f"the driver is {self.name}"


UNREACHABLE = DriverState(_UNREACHABLE)


@dataclass(frozen=True)
class ClusterJob:
    """A submitted job. It goes on when the process that submitted it has ended."""

    pipeline: str
    what: str  # its arguments, for people
    started_by: str
    rest: str  # where the master's REST server is
    driver: str  # the master's id of the driver
    journal: str  # the URI of the lines that the job reports

    @classmethod
    def submit(cls, settings: Settings, pipeline: str, what: Sequence[str], started_by: str) -> Self:
        """Submits a job. Raises RetryableError if the master does not take it.

        A job that an earlier try of the same task has left running is ended first: when a task is cleared, Airflow
        tells the triggerer, but only if the triggerer already knows the task.
        """
        journal = new_journal(settings, pipeline)
        for job in cls._recorded(journal.parent, pipeline):
            if _task(job.started_by) == _task(started_by) != "":
                job.end()
        given = ["--pipeline", pipeline, *what, "--started-by", started_by, "--journal", str(journal)]
        found = find_pipeline(pipeline, settings.pipelines, settings.environment)
        file = settings.pipelines / f"{pipeline.removesuffix(LANDING)}.yaml"
        submission = cluster_submission(settings, given, variables_of(file, settings.environment))
        request = {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": version("pyspark"),
            "appResource": "",  # what to run is among the arguments of spark-submit
            "mainClass": "org.apache.spark.deploy.SparkSubmit",
            "appArgs": submission.arguments,
            "environmentVariables": {**submission.environment, **connection_variables(found)},
            "sparkProperties": dict(submission.properties),
        }
        rest = str(settings.spark_rest)
        answer = _ask("POST", f"{rest}/v1/submissions/create", request)
        if not answer.get("success"):
            raise _not_taken(rest, answer.get("message", "no reason given"))
        job = cls(
            pipeline=pipeline,
            what=" ".join(what),
            started_by=started_by,
            rest=rest,
            driver=answer["submissionId"],
            journal=str(journal),
        )
        files_at(journal).publish(job._record, json.dumps(job.to_json()).encode())
        return job

    @property
    def about(self) -> str:
        return f"{self.pipeline} {self.what}, {self}"

    def state(self) -> DriverState:
        try:
            answer = _ask("GET", f"{self.rest}/v1/submissions/status/{self.driver}")
        except RetryableError:
            return UNREACHABLE
        return DriverState(answer["driverState"] if answer.get("success") else _FORGOTTEN)

    def end(self) -> None:
        """Stops the driver if it still runs, and removes its journal. A master that does not answer is no error:
        an orphan does no harm (I5)."""
        with suppress(RetryableError):
            _ask("POST", f"{self.rest}/v1/submissions/kill/{self.driver}")
        journal = LakeUri(self.journal)
        lines_at(journal).remove()
        files_at(journal).remove(self._record)

    @property
    def _record(self) -> LakeUri:
        """The file that remembers this job while it runs, beside its journal."""
        return LakeUri(self.journal.removesuffix(_LINES) + _RECORD)

    @classmethod
    def _recorded(cls, folder: LakeUri, pipeline: str) -> Iterator[Self]:
        files = files_at(folder)
        for file in files.list(folder):
            if re.fullmatch(rf"{re.escape(pipeline)}-\w+{re.escape(_RECORD)}", file.name):
                with suppress(FileNotFoundError):  # it has just ended
                    with files.open(folder / file.name) as record:
                        job = cls.from_json(json.loads(record.read()))
                    yield job

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, str]) -> Self:
        return cls(**facts)

    def __str__(self) -> str:
        return f"{self.driver} of the cluster"


class ClusterWatch:
    """Follows a job."""

    def __init__(self, job: ClusterJob) -> None:
        self._job, self._journal = job, lines_at(LakeUri(job.journal))

    def look(self) -> tuple[DriverState, list[str]]:
        """The driver's state, and the lines that the job has reported since the last look."""
        state = self._job.state()  # before the journal: it is complete if the driver has ended
        return state, self._journal.new()


def new_journal(settings: Settings, pipeline: str) -> LakeUri:
    """A new place for a job's journal in the lake, which every machine of a cluster reaches."""
    folder = settings.lake / "_lakemark/jobs"
    files_at(folder).make_folder(folder)
    return folder / f"{pipeline}-{uuid.uuid4().hex}{_LINES}"


def _task(started_by: str) -> str:
    """The task that started a job, whichever try it was; empty if no task did."""
    return started_by.rpartition("?")[0]


def _ask(method: str, url: str, body: JsonObject | None = None) -> JsonObject:
    try:
        answer = requests.request(method, url, json=body, timeout=_TIMEOUT_SECONDS)
        return answer.json()
    except (requests.RequestException, ValueError) as error:
        raise _not_taken(url, str(error)) from error


def _not_taken(where: str, found: str) -> RetryableError:
    return RetryableError(
        what="the Spark master does not accept jobs",
        where=where,
        expected="an answer of its REST server (spark.master.rest.enabled true)",
        found=re.sub(r"\s+", " ", found)[:500],
        action="check that the master runs, and that LAKEMARK_SPARK_REST is its REST server's address",
    )
