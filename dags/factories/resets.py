"""One DAG `lakemark__NAME__reset` for every valid file in include/pipelines/: begins a new generation of the pipeline.

Nothing of the previous generation can land any more, and rows stay. It does the same as `lakemark reset`.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow.sdk import DAG, Param, task
from airflow.sdk.types import DagRunProtocol
from lakemark_names import DAG_PREFIX, TAG
from lakemark_sinks_field import sinks_field
from lakemark_tasks import TASKS, asked_by, work_on  # in plugins/, which Airflow puts on the path

from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.control.sink_form import deliver_of
from include.jobs.runner import create_target
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError
from include.protocol.generations import restart
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_rows import generation_to_json
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.settings import Settings

log = logging.getLogger(__name__)
FORM = {
    "from": Param(
        "committed",
        type="string",
        pattern=r"^(committed|earliest|\d+)$",
        title="Read on from",
        description="committed: where the last committed batch ended; earliest: the first record that Kafka holds; "
        "or the id of a batch of the current generation: where that batch began",
    ),
    "reason": Param(
        "", type="string", minLength=1, maxLength=500, title="Reason", description="Recorded in the ledger"
    ),
}


def form_of(pipeline: Pipeline) -> dict[str, Param]:
    """The form, with the tables that a person may accept as they are."""
    names = [*Catalog.of(pipeline).tables]
    accept = Param(
        [],
        type="array",
        items={"type": "string", "enum": names},
        examples=names,
        title="Go on with these tables as they are",
        description="Tables that are not as the last batch left them, also the target. An error names them",
    )
    return {**FORM, "accept": accept, **sinks_field(pipeline)}


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__reset",
        description=f"Begins a new generation of {pipeline.name}; rows stay.",
        doc_md=__doc__,
        schedule=None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        params=form_of(pipeline),
        default_args=TASKS,
        tags=[TAG, "reset"],
        is_paused_upon_creation=False,  # it runs only when somebody starts it
    ) as dag:

        @task(doc_md="Safe to clear: a run does not begin a second generation.")
        def reset(params: dict, dag_run: DagRunProtocol) -> JsonObject:
            coordinator, by = Coordinator(settings, pipeline), asked_by(dag_run)

            def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
                origin = int(params["from"]) if params["from"].isdecimal() else params["from"]
                kafka_order_decides = not pipeline.change.order_by
                return restart(
                    pipeline.name,
                    state,
                    source,
                    origin,
                    kafka_order_decides=kafka_order_decides,
                    reason=params["reason"],
                    started_by=by,
                    deliver=deliver_of(params),
                )

            with work_on(pipeline.name):
                begun = [g for g in coordinator.ledger.state().generations if g.started_by == by]
                if not begun:
                    change = GenerationChange(
                        coordinator,
                        create_target=lambda: create_target(settings, pipeline.name, log.info),
                        accepted=frozenset(params["accept"]),
                    )
                    begun = [change.begin(decide)[0]]
                if begun[-1].started_by != by:
                    raise RetryableError(
                        what="another change of generation had been interrupted, and was finished first",
                        where=f"{pipeline.name} generation {begun[-1].generation}",
                        expected=f"one by {by}",
                        found=f"one by {begun[-1].started_by}",
                        action="check whether this reset is still wanted; the next try begins it",
                    )
            [started] = begun
            log.info("generation %s began (%s): %s", started.generation, started.origin, started.reason)
            return {"generation": started.generation, **generation_to_json(started)}

        reset()
    return dag
