"""The task of a group's run: gives each pipeline of the group that has new data its turn, and tells of its batches.

What goes wrong with a pipeline goes on in a run of its own DAG, which an event of this task starts: there it is red, is
tried again, and has its note and its alert, as without a group (`include.protocol.draining`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import DagResult, GetDag
from airflow.sdk.types import RuntimeTaskInstanceProtocol
from lakemark_asked import Asked  # in plugins/, which Airflow puts on the path
from lakemark_metrics import of_job
from lakemark_names import DAG_PREFIX
from lakemark_run_task import tell_of_landed
from lakemark_tasks import answer, classed, log_fact_of, own_run, this_try
from structlog.contextvars import bound_contextvars

from include.jobs.drain import Drain, Ended
from include.jobs.member_worker import MemberWorker
from include.lake.lakes import verify_lives
from include.pipeline_file import Pipeline, find_pipeline
from include.pipeline_file.loading import groups_in
from include.protocol.draining import Due, due_members
from include.protocol.errors import LakemarkError, RetryableError
from include.protocol.json_data import JsonObject
from include.settings import Settings
from include.sources.logins import connection_variables

log = logging.getLogger(__name__)
_UNFINISHED = ["queued", "running"]
_LANDED, _IDLE = "landed", "nothing new"


class DrainTask(BaseOperator):
    """Serves a group. Safe to clear at any time: each turn goes on where the one before it was killed.

    Args:
        waits: the asset whose events say which pipelines are due. batches: the alias through which it sends an event of
            its target for every batch. alone: through which it starts runs of pipelines' own DAGs.

    Returns:
        What became of each pipeline, by name.
    """

    ui_color = "#e3f0ec"

    def __init__(
        self, *, group: str, waits: Asset, batches: AssetAlias, alone: AssetAlias, **arguments: object
    ) -> None:
        super().__init__(inlets=[waits], outlets=[batches, alone], **arguments)
        self.group, self.waits, self.batches, self.alone = group, waits, batches, alone

    def execute(self, context: Context) -> dict[str, str]:
        settings = Settings.from_environment()
        members = groups_in(settings.pipelines).get(self.group, [])
        asked = Asked.of(context, self.waits)
        due = due_members(members, asked.records, asked.suspects, asked.ill)
        log.info("%s of %s pipelines are due: %s", len(due), len(members), ", ".join(one.name for one in due))
        became: dict[str, str] = {}
        with classed():
            verify_lives(settings.lake, settings.home)
            turns = {one: self._pipeline(context, settings, one, became) for one in due}
            pipelines = {one.name: pipeline for one, pipeline in turns.items() if pipeline is not None}
            for ended in self._drained(context, settings, [one for one in due if one.name in pipelines], pipelines):
                became[ended.member] = self._told(context, settings, pipelines[ended.member], ended)
            self._tell_of_others(context, settings, members if asked.records is None else asked.records, pipelines)
            asked.is_done(context, self.waits)
        if trouble := [f"{name}: {text}" for name, text in became.items() if text not in (_LANDED, _IDLE)]:
            answer("\n".join(trouble))
        return became

    def _pipeline(self, context: Context, settings: Settings, one: Due, became: dict[str, str]) -> Pipeline | None:
        """The pipeline of a member that has a turn now; None: it has none, and `became` says why."""
        try:
            pipeline = find_pipeline(one.name, settings.pipelines, settings.environment)
        except LakemarkError as error:
            became[one.name] = self._alone(context, one.name, str(error))
            return None
        if (why := _busy_elsewhere(context["ti"], one.name)) is not None:
            became[one.name] = why
        elif one.problem is not None:  # its turn would take time from the others
            became[one.name] = self._alone(context, one.name, one.problem)
        elif one.is_large:
            became[one.name] = self._alone(context, one.name, f"{one.records:,} records are too many for a turn")
        elif settings.has_cluster_drivers:
            became[one.name] = self._alone(context, one.name, "its job is a driver on a cluster")
        else:
            return pipeline
        return None

    def _drained(
        self, context: Context, settings: Settings, due: Sequence[Due], pipelines: Mapping[str, Pipeline]
    ) -> list[Ended]:
        """What the turns came to, once all are over: what tells of batches opens tables, and a process that has done so
        can fork no more workers."""
        by, ended = this_try(), list[Ended]()
        drain = Drain(
            start=lambda: MemberWorker(settings, by),
            has_code=lambda name: pipelines[name].brings_code,
            variables=lambda name: _logins(pipelines[name]),
            listen=_heard,
            log=lambda name, line: log.info("%s: %s", name, line),
        )
        try:
            for one in drain.run(due):
                ended.append(one)
        except RetryableError:
            Asked.gives_up(context, self.waits, drain.suspects)
            raise
        return ended

    def _told(self, context: Context, settings: Settings, pipeline: Pipeline, ended: Ended) -> str:
        """Tells of what a turn has landed, and passes on what it has not. Returns what became of the pipeline.

        Raises:
            RetryableError: the lake does not say what has landed. The task's next try tells of all of it.
        """
        name, landed, error = ended.member, 0, ended.error
        outcomes = [result for result in ended.results if result["pipeline"] == name]
        try:
            # Neither a worker that was ended has said all, nor an earlier try.
            is_all = error is None and context["ti"].try_number == 1
            if outcomes or not is_all:
                landed = self._tell(context, settings, pipeline, outcomes, is_all=is_all, is_well=error is None)
        except RetryableError:
            raise
        except Exception as problem:  # whatever it is, the events of the others must be sent
            log.exception("%s: the events of its batches could not be sent", name)
            return self._alone(context, name, str(problem))
        if error is None:
            return _LANDED if landed else _IDLE
        if error.evidence:
            log.error("%s: evidence: %s", name, error.evidence)
        log.error("%s: %s", name, error)
        return self._alone(context, name, str(error))

    def _tell_of_others(
        self, context: Context, settings: Settings, asked: Collection[str], served: Collection[str]
    ) -> None:
        """Tells of what an earlier try has landed of pipelines that have no turn in this one."""
        for name in asked if context["ti"].try_number > 1 else ():
            if name in served:
                continue
            try:
                pipeline = find_pipeline(name, settings.pipelines, settings.environment)
                self._tell(context, settings, pipeline, [], is_all=False, is_well=False)
            except RetryableError:
                raise
            except Exception:  # whatever it is, the events of the others must be sent
                log.exception("%s: the events of its batches could not be sent", name)

    def _tell(
        self,
        context: Context,
        settings: Settings,
        pipeline: Pipeline,
        outcomes: list[JsonObject],
        *,
        is_all: bool,
        is_well: bool,
    ) -> int:
        """Args: is_well: its brokers have just answered; nobody waits here for those that may not."""
        outlet = context["outlet_events"][self.batches]
        with bound_contextvars(pipeline=pipeline.name):
            return len(tell_of_landed(settings, pipeline, outcomes, is_all=is_all, outlet=outlet, measures_lag=is_well))

    def _alone(self, context: Context, name: str, why: str) -> str:
        """Starts a run of the pipeline's own DAG, and says so."""
        context["outlet_events"][self.alone].add(own_run(name), extra={"why": why[:500]})
        log.info("%s goes on in a run of its own", name)
        return f"goes on in a run of its own: {why}"


def _busy_elsewhere(ti: RuntimeTaskInstanceProtocol, name: str) -> str | None:
    """Why a pipeline has no turn in its group now; None: it has."""
    dag_id = f"{DAG_PREFIX}{name}"
    if ti.get_dr_count(dag_id, states=_UNFINISHED):
        return f"a run of {dag_id} goes on"
    try:
        dag = task_runner.SUPERVISOR_COMMS.send(GetDag(dag_id=dag_id))
    except AirflowRuntimeError:  # Airflow has not parsed a new pipeline's DAG yet
        return None
    return f"{dag_id} is paused" if isinstance(dag, DagResult) and dag.is_paused else None


def _logins(pipeline: Pipeline) -> Mapping[str, str]:
    try:
        return connection_variables(pipeline)
    except LakemarkError:  # the job meets it, too, and reports it
        return {}


def _heard(name: str, fact: JsonObject) -> None:
    log_fact_of(name, fact)
    of_job(name, fact)
