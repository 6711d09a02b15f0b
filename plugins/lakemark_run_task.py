"""The task of a run that shows as one: its job plans, merges and settles, and the task tells of the batches."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import lakemark_lineage  # in plugins/, which Airflow puts on the path
import lakemark_metrics
from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.types import OutletEventAccessorProtocol
from lakemark_merge_task import MergeTask, ran_of
from lakemark_tasks import this_task, work_on

from include.control.coordinator import Coordinator
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.runs import WholeRun
from include.settings import Settings
from include.table_events import BatchEvent

log = logging.getLogger(__name__)


class RunTask(MergeTask):
    """Does a whole run. Safe to clear at any time: a try goes on where the one before it was killed.

    Args:
        batches: the alias through which it sends an event of the target for every batch.

    Returns:
        The events that it has sent.
    """

    def __init__(self, *, pipeline: str, batches: AssetAlias, **arguments: object) -> None:
        super().__init__(pipeline=pipeline, work=WholeRun().to_json(), outlets=[batches], **arguments)
        self.batches = batches

    def execute(self, context: Context) -> list[JsonObject]:
        return self._told(context, super().execute(context))

    def ended(self, context: Context, job: Mapping[str, str], event: Mapping[str, str]) -> list[JsonObject]:
        return self._told(context, super().ended(context, job, event))

    def _told(self, context: Context, outcomes: list[JsonObject]) -> list[JsonObject]:
        with work_on(self.pipeline):
            settings = Settings.from_environment()
            pipeline = find_pipeline(self.pipeline, settings.pipelines, settings.environment)
            outlet, is_all = context["outlet_events"][self.batches], context["ti"].try_number == 1
            return tell_of_landed(settings, pipeline, outcomes, is_all=is_all, outlet=outlet)


def tell_of_landed(
    settings: Settings,
    pipeline: Pipeline,
    outcomes: list[JsonObject],
    *,
    is_all: bool,
    outlet: OutletEventAccessorProtocol,
    measures_lag: bool = True,
) -> list[JsonObject]:
    """Tells of all that this task has landed of a pipeline, also in its earlier tries. Returns the events.

    Args:
        outcomes: of the batches that this try has run. is_all: they are all that it has landed. If not, the ledger says
            what else it was. outlet: takes an event for each. measures_lag: which waits for brokers that do not answer.
    """
    coordinator = Coordinator(settings, pipeline)
    settled = landed_by(coordinator, this_task(), outcomes, is_all)
    events = tell_of_batches(settings, pipeline, settled, outlet)
    if measures_lag:
        lakemark_metrics.of_lag_now(coordinator)
    return events


def tell_of_batches(
    settings: Settings, pipeline: Pipeline, settled: Sequence[BatchRecord], outlet: OutletEventAccessorProtocol
) -> list[JsonObject]:
    """Sends an event of the target for every batch, and the lineage of all. Returns the events."""
    events = [BatchEvent.of(pipeline, record).to_json() for record in settled]
    for event in events:
        log.info("batch %s is version %s of the table", event["batch_id"], event["table_version"])
        outlet.add(Asset(pipeline.target.table), extra=event)
    lakemark_lineage.of_run(settings, pipeline, settled)
    return events


def landed_by(coordinator: Coordinator, task: str, outcomes: list[JsonObject], is_all: bool) -> list[BatchRecord]:
    """The batches that this try has run, and those that earlier tries of the same task have: a try that was killed has
    told nobody of them.

    Args:
        task: as the ledger knows it, of whatever try. outcomes: of this try's job. is_all: see `tell_of_landed`.
    """
    ran, ledger = ran_of(outcomes), coordinator.ledger
    state = ledger.recent(min(ran, default=None)) if is_all else ledger.state()
    return [
        record
        for record in state.batches
        if record.commit is not None
        and (record.batch.key in ran or any(a.started_by.partition("?")[0] == task for a in record.attempts))
    ]
