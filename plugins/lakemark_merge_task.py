"""The task that runs a Spark job. If a cluster runs the job's driver, the task is deferred and holds no worker slot."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent
from lakemark_metrics import of_job  # in plugins/, which Airflow puts on the path
from lakemark_quality_link import QualityLink
from lakemark_tasks import log_fact, telling, this_try, work_on

from include.control.coordinator import Coordinator
from include.jobs.cluster_job import UNREACHABLE, ClusterJob, ClusterWatch, DriverState
from include.jobs.report import JobReport
from include.jobs.runner import run_job, submit_job
from include.pipeline_file import find_pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import FencedGeneration, LakemarkError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.runs import RunPlan, WholeRun, Work
from include.settings import Settings

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0


class MergeTask(BaseOperator):
    """Runs the batches of a run, or one chunk of a backfill. Safe to clear at any time.

    Args:
        work: a run's plan, a batch's key or a `WholeRun` as data, or the output of the task that makes it.

    Returns:
        The id and the outcome of every batch.
    """

    template_fields = ("work",)
    ui_color = "#e3f0ec"
    operator_extra_links = (QualityLink(),)

    def __init__(self, *, pipeline: str, work: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.pipeline, self.work = pipeline, work
        self.attempt_id: str | None = None  # the last one of this try

    def execute(self, context: Context) -> list[JsonObject]:
        settings = Settings.from_environment()
        if self.work is None:
            log.info("the plan has found nothing new, so there is nothing to merge")
            return []
        work = _work_of(self.work)
        with work_on(self.pipeline):
            # Nothing here opens a table before the job has begun: what that takes has threads, and a process with
            # threads cannot fork the job.
            try:
                job = submit_job(settings, self.pipeline, work, this_try())
                if job is None:
                    listen = self._hear(telling(self.pipeline))
                    with self._unless_ended(settings):
                        done = run_job(settings, self.pipeline, work, this_try(), listen=listen, log=log.info)
                        return self._outcomes(done)
                    return []
            finally:
                self._name(settings, context)
        log.info("%s is running; this task waits for it in the triggerer", job)
        facts = job.to_json()
        raise TaskDeferred(trigger=JobEnds(facts), method_name=self.ended.__name__, kwargs={"job": facts})

    def ended(self, context: Context, job: Mapping[str, str], event: Mapping[str, str]) -> list[JsonObject]:
        """Resumes the task when the job has ended."""
        done = ClusterJob.from_json(job)
        settings = Settings.from_environment()
        with work_on(self.pipeline):
            self._name(settings, context)
            # The triggerer has logged the job's lines already.
            report = JobReport(done.about, self._hear(lambda fact: of_job(self.pipeline, fact)), lambda line: None)
            for line in ClusterWatch(done).look()[1]:
                report.said(line)
            done.end()
            with self._unless_ended(settings):
                return self._outcomes(report.results(DriverState(event["state"]).ending))
            return []

    @contextmanager
    def _unless_ended(self, settings: Settings) -> Iterator[None]:
        """It is no failure that a person has ended the generation, or cancelled the backfill, while the job ran."""
        try:
            yield
        except FencedGeneration:
            pipeline = find_pipeline(self.pipeline, settings.pipelines, settings.environment)
            if not Coordinator(settings, pipeline).is_over(_work_of(self.work)):
                raise

    def _outcomes(self, results: list[JsonObject]) -> list[JsonObject]:
        """What it returns. A job that does a whole run reports the landing's batches, too."""
        ours = (result for result in results if result["pipeline"] == self.pipeline)
        return [{name: result[name] for name in ("generation", "batch_id", "outcome")} for result in ours]

    def _hear(self, tell: Callable[[JsonObject], None]) -> Callable[[JsonObject], None]:
        """Takes a job's lines: for `tell`, and for the task's link."""

        def hear(fact: JsonObject) -> None:
            self.attempt_id = fact.get("attempt_id", self.attempt_id)
            tell(fact)

        return hear

    def _name(self, settings: Settings, context: Context) -> None:
        """Sets the name of a mapped task (a chunk) in the UI. No error of this hides one of the job."""
        if context["ti"].map_index < 0:
            return
        with suppress(LakemarkError):
            pipeline = find_pipeline(self.pipeline, settings.pipelines, settings.environment)
            key = BatchKey(**self.work)
            backfill = Coordinator(settings, pipeline).ledger.state().backfills[-key.generation].backfill
            context["chunk_name"] = " ".join(r.as_argument() for r in backfill.chunks[key.batch_id])[:200]


class JobEnds(BaseTrigger):
    """Fires when a job's driver on the cluster has ended. Until then it logs the job's progress in the task's log.

    Args:
        job: a `ClusterJob` as data.
    """

    def __init__(self, job: dict[str, str]) -> None:
        super().__init__()
        self.job = job

    def serialize(self) -> tuple[str, JsonObject]:
        return f"{__name__}.{type(self).__name__}", {"job": self.job}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        watch, silent = ClusterWatch(ClusterJob.from_json(self.job)), False
        while True:
            state, lines = await asyncio.to_thread(watch.look)
            for line in lines:
                log_fact(json.loads(line))
            if state.is_end:
                yield TriggerEvent({"state": state.name})
                return
            if (state == UNREACHABLE) != silent:
                silent = not silent
                log.warning("%s", state.name if silent else "the master answers again")
            await asyncio.sleep(LOOK_SECONDS)

    async def on_kill(self) -> None:
        """Somebody cleared the task, or set its state: the driver on the cluster is stopped."""
        await asyncio.to_thread(ClusterJob.from_json(self.job).end)


def _work_of(facts: JsonMapping) -> Work:
    if "whole_run" in facts:
        return WholeRun()
    return RunPlan.from_json(facts) if "until" in facts else BatchKey(**facts)


def ran_of(outcomes: list[JsonObject]) -> set[BatchKey]:
    """The batches that a task has run, from what it returned. (Before 0.2 it did not say in which generation.)"""
    return {BatchKey(o["generation"], o["batch_id"]) for o in outcomes if "generation" in o}
