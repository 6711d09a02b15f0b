"""The task of a group's run: gives each pipeline of the group that has new data its turn, and tells of its batches.

What goes wrong with a pipeline goes on in a run of its own DAG, which an event of this task starts: there it is red, is
tried again, and has its note and its alert, as without a group (`include.protocol.draining`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Self

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import DagResult, GetDag
from airflow.sdk.types import RuntimeTaskInstanceProtocol
from lakemark_metrics import of_job  # in plugins/, which Airflow puts on the path
from lakemark_names import DAG_PREFIX
from lakemark_run_task import tell_of_landed
from lakemark_tasks import answer, classed, log_fact_of, own_run, this_try
from structlog.contextvars import bound_contextvars

from include.jobs.drain import Drain, Ended
from include.jobs.member_worker import MemberWorker
from include.lake.lakes import verify_lives
from include.pipeline_file import find_pipeline
from include.pipeline_file.loading import groups_in
from include.protocol.draining import Due, due_members
from include.protocol.errors import LakemarkError, RetryableError
from include.protocol.json_data import JsonObject
from include.settings import Settings
from include.sources.logins import connection_variables

log = logging.getLogger(__name__)
_UNFINISHED = ["queued", "running"]
_LANDED, _IDLE = "landed", "nothing new"
_TAKEN = "taken_until"  # the key in the asset's store


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
        due = due_members(members, asked.records)
        log.info("%s of %s pipelines are due: %s", len(due), len(members), ", ".join(one.name for one in due))
        became: dict[str, str] = {}
        with classed():
            verify_lives(settings.lake, settings.home)
            turns = [*self._admitted(context, settings, due, became)]
            for one in [*self._drained(settings, turns)]:
                became[one.member] = self._told(context, settings, one)
            asked.is_done(context, self.waits)
        if trouble := [f"{name}: {text}" for name, text in became.items() if text not in (_LANDED, _IDLE)]:
            answer("\n".join(trouble))
        return became

    def _admitted(
        self, context: Context, settings: Settings, due: Sequence[Due], became: dict[str, str]
    ) -> Iterator[Due]:
        """Those that have a turn now. The others: `became` says why not."""
        for one in due:
            if (why := _busy_elsewhere(context["ti"], one.name)) is not None:
                became[one.name] = why
            elif one.is_large:
                became[one.name] = self._alone(context, one.name, f"{one.records:,} records are too many for a turn")
            elif settings.has_cluster_drivers:
                became[one.name] = self._alone(context, one.name, "its job is a driver on a cluster")
            else:
                yield one

    def _drained(self, settings: Settings, turns: Sequence[Due]) -> Iterator[Ended]:
        by = this_try()
        drain = Drain(
            start=lambda: MemberWorker(settings, by),
            variables=lambda name: _logins(settings, name),
            listen=_heard,
            log=lambda name, line: log.info("%s: %s", name, line),
        )
        return drain.run(turns)

    def _told(self, context: Context, settings: Settings, ended: Ended) -> str:
        """Tells of what a turn has landed, and passes on what it has not. Returns what became of the pipeline.

        Raises:
            RetryableError: the lake does not say what has landed. The task's next try tells of all of it.
        """
        name, landed, error = ended.member, 0, ended.error
        try:
            landed = self._tell_of_batches(context, settings, ended)
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

    def _tell_of_batches(self, context: Context, settings: Settings, ended: Ended) -> int:
        if context["ti"].try_number == 1 and not ended.results:
            return 0
        outcomes = [result for result in ended.results if result["pipeline"] == ended.member]
        with bound_contextvars(pipeline=ended.member):
            return len(tell_of_landed(settings, ended.member, outcomes=outcomes, context=context, batches=self.batches))

    def _alone(self, context: Context, name: str, why: str) -> str:
        """Starts a run of the pipeline's own DAG, and says so."""
        context["outlet_events"][self.alone].add(own_run(name), extra={"why": why[:500]})
        log.info("%s goes on in a run of its own", name)
        return f"goes on in a run of its own: {why}"


class Asked(NamedTuple):
    """Whom a run is asked to serve.

    Airflow gives a run the events until the first one after the run before. Those that came later, while that run was
    active, it gives to the run after this one, if there ever is one. So a run takes all that no run has taken yet, and
    the asset's store says up to where they were taken.
    """

    records: Mapping[str, int] | None  # that wait, by pipeline; None: a person has started the run, for all
    until: datetime | None = None  # of the newest event; None: there is none

    @classmethod
    def of(cls, context: Context, waits: Asset) -> Self:
        if context["dag_run"].run_type != "asset_triggered":
            return cls(None)
        given = [event for of_asset in context["triggering_asset_events"].values() for event in of_asset]
        taken = context["asset_state_store"][waits].get(_TAKEN)
        since = datetime.fromisoformat(taken) if taken else min((e.timestamp for e in given), default=None)
        newer = [*context["inlet_events"][waits].after(since.isoformat())] if since else []
        newer = [event for event in newer if not taken or event.timestamp > since]
        again = given if context["ti"].try_number > 1 else []  # what its earlier tries were asked for
        records = {name: n for event in (*again, *newer) for name, n in event.extra["payload"].items()}
        return cls(records, max((event.timestamp for event in newer), default=None))

    def is_done(self, context: Context, waits: Asset) -> None:
        """Its events are taken."""
        if self.until is not None:
            context["asset_state_store"][waits].set(_TAKEN, self.until.isoformat())


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


def _logins(settings: Settings, name: str) -> Mapping[str, str]:
    try:
        return connection_variables(find_pipeline(name, settings.pipelines, settings.environment))
    except LakemarkError:  # the job meets it, too, and reports it
        return {}


def _heard(name: str, fact: JsonObject) -> None:
    log_fact_of(name, fact)
    of_job(name, fact)
