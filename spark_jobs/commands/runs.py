"""Runs batches of a pipeline: one, a run that was planned, one that it plans itself, or all until there is no more."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass

from pyspark.sql import SparkSession

from include.control.coordinator import Coordinator
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch, BatchKey
from include.protocol.json_data import JsonObject
from include.protocol.planning import Idle
from include.protocol.runs import RunPlan
from include.settings import Settings
from spark_jobs.attempt.attempt import Attempt, AttemptResult, OpenSession
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.session import lives


class SharedSession:
    """A session for several batches. The first that has work opens it. The next opens another after `close`, or if the
    session has gone, as its server was restarted between two batches."""

    def __init__(self, open_session: OpenSession) -> None:
        self._open = open_session
        self._stack = ExitStack()
        self._spark: SparkSession | None = None

    def __call__(self) -> AbstractContextManager[SparkSession]:
        return nullcontext(self.get())

    def get(self) -> SparkSession:
        """The session. Who closes this object ends it."""
        if self._spark is not None and not lives(self._spark):
            self.close()
        if self._spark is None:
            self._spark = self._stack.enter_context(self._open())
        return self._spark

    def close(self) -> None:
        self._spark = None
        self._stack.close()


@dataclass
class Runs:
    """Runs batches, with the sessions that `open_session` gives.

    Args:
        started_by: for the ledger: who started it, and where to find that run.
    """

    settings: Settings
    open_session: OpenSession
    started_by: str
    say: SayFact

    def until_caught_up(self, pipeline: Pipeline) -> None:
        """Runs batches until there is nothing new for the pipeline or for its landing."""
        landing, goes_on = pipeline.landing, True
        while goes_on:
            landed = landing is not None and self.next_batch(landing, ignore_merge_every=True)
            goes_on = self.next_batch(pipeline, ignore_merge_every=not landed) or landed

    def whole_run(self, pipeline: Pipeline) -> None:
        """Plans a run, and does all of it: first the landing's, if there is one."""
        landing = pipeline.landing
        landed = landing is not None and self._planned_run(landing, ignore_merge_every=False)
        if not self._planned_run(pipeline, ignore_merge_every=landing is not None and not landed) and not landed:
            self.say({"progress": "nothing new", "why": "there is no batch to run"})

    def _planned_run(self, pipeline: Pipeline, ignore_merge_every: bool) -> bool:
        coordinator = Coordinator(self.settings, pipeline)
        run = coordinator.plan_run(ignore_merge_every)
        if run is None:
            return False
        self._say_planned(coordinator.ledger.recent(run.first).planned(pipeline.name, run.first).batch)
        self.run(pipeline, run)
        return True

    def run(self, pipeline: Pipeline, run: RunPlan) -> None:
        """Does a run that was planned: its first batch, and all others to its end."""
        coordinator = Coordinator(self.settings, pipeline)
        self.say({"result": _settled(coordinator, self.attempt(pipeline, run.first))})
        while not run.is_done(coordinator.ledger.recent()) and self.next_batch(pipeline, ignore_merge_every=True):
            pass

    def next_batch(self, pipeline: Pipeline, ignore_merge_every: bool) -> bool:
        """Plans, applies and settles the next batch. False if there is none."""
        coordinator = Coordinator(self.settings, pipeline)
        plan = coordinator.plan(ignore_merge_every)
        if isinstance(plan, Idle):
            return False
        self._say_planned(plan.batch)
        self.say({"result": _settled(coordinator, self.attempt(pipeline, plan.batch.key))})
        return True

    def _say_planned(self, batch: Batch) -> None:
        about = {**batch.key._asdict(), "attempt_id": None}  # none has begun
        self.say({"progress": "planned", "batch": batch.to_json(), **about})

    def attempt(self, pipeline: Pipeline, key: BatchKey) -> AttemptResult:
        return Attempt(
            self.settings,
            pipeline,
            key,
            open_session=self.open_session,
            started_by=self.started_by,
            say=self.say,
        ).run()


def _settled(coordinator: Coordinator, result: AttemptResult) -> JsonObject:
    began = time.monotonic()
    committed = coordinator.settle(result.batch.key)
    seconds = {**result.phase_seconds, "settle": round(time.monotonic() - began, 3)}
    return {
        **result.to_json(),
        "counts": committed.counts and committed.counts.to_json(),
        "table_version": committed.table_version,
        "phase_seconds": seconds,
    }
