"""One DAG `lakemark__NAME` for every valid file in include/pipelines/: plan, merge, settle; or `run`, which does all
three, if the file says `tasks: one`.

With `merge_every` it first does the same for the landing, which appends records to the archive: plan_landing, land,
settle_landing.
"""

from __future__ import annotations

import logging
from datetime import datetime
from hashlib import sha256

import lakemark_metrics  # in plugins/, which Airflow puts on the path
import lakemark_on_data
from airflow.sdk import DAG, Asset, AssetAlias, AssetWatcher, XComArg, get_current_context, task
from airflow.sdk.types import OutletEventAccessorsProtocol
from lakemark_merge_task import MergeTask, ran_of
from lakemark_names import DAG_PREFIX, TAG
from lakemark_run_task import RunTask, tell_of_batches
from lakemark_tasks import ON_SPARK, TASKS, own_run, work_on

from include.control.coordinator import Coordinator
from include.participants.explain import markdown
from include.pipeline_file import Pipeline
from include.pipeline_file.schedule import OnData, OnTables
from include.protocol.json_data import JsonObject
from include.protocol.ledger_records import BatchRecord
from include.protocol.ranges import offsets_as_argument
from include.protocol.runs import RunPlan
from include.settings import Settings

log = logging.getLogger(__name__)


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    table = Asset(pipeline.target.table)
    batches = AssetAlias(f"{pipeline.name} batches")  # a task can send several events only through an alias
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}",
        description=pipeline.for_people.description,
        doc_md=markdown(pipeline),
        schedule=schedule(pipeline),
        start_date=datetime(2024, 1, 1),
        catchup=False,  # a run reads what Kafka holds now, whatever the run's date
        max_active_runs=1,
        default_args=TASKS,
        tags=[TAG],
        # In a group it runs only if its turn there has failed, or a person starts it. (None: Airflow's own setting.)
        is_paused_upon_creation=None if pipeline.group is None else False,
    ) as dag:
        if pipeline.tasks == "one":
            RunTask(
                task_id="run",
                pipeline=pipeline.name,
                batches=batches,
                inlets=[table],
                doc_md="Plans, merges and settles, in one job. Safe to clear at any time.",
                **ON_SPARK,
            )
        else:
            three_tasks(pipeline, settings, table, batches)
    return dag


def three_tasks(pipeline: Pipeline, settings: Settings, table: Asset, batches: AssetAlias) -> None:
    """Plan, merge, settle; the landing's tasks come before them."""

    @task.short_circuit(
        inlets=[table],
        trigger_rule="none_failed",  # a landing with nothing to land was skipped
        doc_md="Records the next batch's offset ranges in the ledger, or finds nothing new.",
    )
    def plan() -> JsonObject | None:
        with work_on(pipeline.name):
            coordinator = Coordinator(settings, pipeline)
            run = coordinator.plan_run(ignore_merge_every=pipeline.landing is not None and not has_landed())
        lakemark_metrics.of_lag_now(coordinator)
        return told(pipeline, run)

    @task(outlets=[batches], doc_md="Records what has landed, and sends an event of the table for every batch.")
    def settle(
        planned: JsonObject | None, merged: list | None, *, outlet_events: OutletEventAccessorsProtocol
    ) -> list[JsonObject]:
        settled = settle_run(settings, pipeline, planned=planned, ran=merged)
        return tell_of_batches(settings, pipeline, settled, outlet_events[batches])

    planned = plan()
    if (landed := landing_task(pipeline, settings)) is not None:
        landed >> planned
    merge = MergeTask(
        task_id="merge",
        pipeline=pipeline.name,
        work=planned,
        doc_md="Runs the Spark job for the run's batches. Safe to clear at any time.",
        **ON_SPARK,
    )
    settle(planned, merge.output)


def landing_task(pipeline: Pipeline, settings: Settings) -> XComArg | None:
    """The last of the landing's tasks, which come before the others; None without `merge_every`."""
    landing = pipeline.landing
    if landing is None:
        return None

    # If there is nothing to land, records that wait in the archive are merged all the same.
    @task.short_circuit(
        ignore_downstream_trigger_rules=False,
        doc_md="Records the archive's next offset ranges in the landing's ledger, or finds nothing new.",
    )
    def plan_landing() -> JsonObject | None:
        with work_on(landing.name):
            return told(landing, Coordinator(settings, landing).plan_run())

    @task(doc_md="Records what has landed in the archive.")
    def settle_landing(planned: JsonObject | None, done: list | None) -> int:
        return len(settle_run(settings, landing, planned=planned, ran=done))

    planned = plan_landing()
    land = MergeTask(
        task_id="land",
        pipeline=landing.name,
        work=planned,
        doc_md="Runs the Spark job that appends the run's batches to the archive. Safe to clear at any time.",
        **ON_SPARK,
    )
    return settle_landing(planned, land.output)


def settle_run(
    settings: Settings, pipeline: Pipeline, planned: JsonObject | None, ran: list[JsonObject] | None
) -> list[BatchRecord]:
    """Settles a run. Args: what the tasks before it have left; None: nothing, or a person has marked them as done."""
    run = None if planned is None else RunPlan.from_json(planned)
    with work_on(pipeline.name):
        return Coordinator(settings, pipeline).settle_run(run, ran_of(ran or []))


def has_landed() -> bool:
    """Whether this run had anything to land. It reads the landing's plan by the task's name: a task that took the plan
    as an argument would be skipped together with the landing."""
    return get_current_context()["ti"].xcom_pull(task_ids="plan_landing") is not None


def told(pipeline: Pipeline, run: RunPlan | None) -> JsonObject | None:
    """A run's plan as data. It also goes into the log."""
    if run is None:
        log.info("nothing new: there is no batch to run")
        return None
    log.info("from %s batch %s to %s", pipeline.name, run.first.batch_id, offsets_as_argument(run.until))
    return run.to_json()


def schedule(pipeline: Pipeline) -> str | list[Asset] | None:
    """The pipeline's schedule in Airflow's form."""
    if pipeline.group is not None:
        return [own_run(pipeline.name)]
    match pipeline.schedule:
        case OnTables(tables=tables):
            return [Asset(table) for table in tables]
        case OnData(records=records, seconds=seconds):
            version = sha256(pipeline.model_dump_json().encode()).hexdigest()[:12]
            trigger = lakemark_on_data.OnData(pipeline.name, records, seconds, version)
            name = f"{pipeline.name}: data waits"
            return [Asset(name, f"lakemark-waiting://{pipeline.name}", watchers=[AssetWatcher(name, trigger)])]
        case cron:
            return cron
