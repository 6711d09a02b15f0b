"""One DAG `lakemark__NAME__backfill` for every valid file in include/pipelines/, with a form.

preview -> plan -> chunk (one mapped task for each chunk, restartable one by one) -> finish. Or cancel: it ends an
earlier backfill. Or discard: it gives up records of the quarantine.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.types import DagRunProtocol
from lakemark_merge_task import MergeTask  # in plugins/, which Airflow puts on the path
from lakemark_names import DAG_PREFIX, TAG
from lakemark_sinks_field import sinks_field
from lakemark_tasks import ON_SPARK, TASKS, answer, asked_by, rows_changed, work_on

from include.control.backfill_form import CANCEL, DISCARD, HELP, RANGES, discarded_by, number_to_cancel, request_of
from include.control.backfill_preview import preview_lines
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.jobs.runner import run_promotion
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.settings import Settings

log = logging.getLogger(__name__)


def form(pipeline: Pipeline) -> dict[str, Param]:
    """The form that Airflow shows when somebody triggers the DAG."""
    topic = pipeline.source.topics[0] if pipeline.source.topics else "topic"
    limit = pipeline.source.limits.records_per_batch_max
    return {
        "what": Param(
            RANGES,
            type="string",
            enum=list(HELP),
            title="What to do",
            description_md="; ".join(f"**{name}**: {text}" for name, text in HELP.items()),
        ),
        "ranges": Param(  # a field that may stay empty may be null: Airflow's form requires all others
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": r"^.+-\d+:\d+-\d+$"},
            title="Offset ranges",
            description=f"TOPIC-PARTITION:START-END, END exclusive, like {topic}-0:100-200; one per line and partition",
        ),
        "since": Param(
            None, type=["null", "string"], format="date-time", title="From", description="Time span: inclusive"
        ),
        "until": Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="To",
            description="Time span: exclusive; empty: up to the newest record in Kafka",
        ),
        "batches": Param(
            None,
            type=["null", "string"],
            pattern=r"^\d+(-\d+)?$",
            title="Batches",
            description="Ids of batches of the current generation, first and last inclusive, like 3-7",
        ),
        "source": Param(
            "kafka",
            type="string",
            enum=["kafka", "archive"],
            title="Read from",
            description="The archive, if the pipeline file names one, also holds what Kafka has dropped",
        ),
        "rule": Param(
            None,
            type=["null", "string"],
            title="Rule",
            description="Quarantine, discard: only records that broke this rule; empty: all pending records",
        ),
        "records_per_chunk": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Records per chunk",
            description=f"A chunk is one task and one commit; empty: {limit:,}, as for the pipeline's batches",
        ),
        "backfill": Param(
            None, type=["null", "integer"], minimum=1, title="Backfill to cancel", description="Its number"
        ),
        "only_preview": Param(
            False, type="boolean", title="Only preview", description="Say what would be read, and stop"
        ),
        "reason": Param(
            None, type=["null", "string"], maxLength=500, title="Reason", description="Recorded in the ledger"
        ),
        **sinks_field(pipeline),
    }


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__backfill",
        description=f"Reads offsets of {pipeline.name} again, beside the live pipeline.",
        doc_md=__doc__,
        schedule=None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        params=form(pipeline),
        default_args=TASKS,
        tags=[TAG, "backfill"],
        is_paused_upon_creation=False,  # it runs only when somebody starts it
    ) as dag:
        backfills = Backfills(Coordinator(settings, pipeline))

        @task.branch
        def choose(params: dict) -> str:
            return {CANCEL: "cancel", DISCARD: "discard"}.get(params["what"], "preview")

        @task
        def cancel(params: dict, dag_run: DagRunProtocol) -> list[JsonObject]:
            with work_on(pipeline.name):
                number = number_to_cancel(params)
                if backfills.was_cancelled(number):
                    return []  # by an earlier try of this task, or by somebody else
                chunks = backfills.cancel(number, asked_by(dag_run))
            return [chunk.to_json() for chunk in chunks]

        @task(doc_md="Marks pending records of the quarantine as not wanted. Safe to clear: none is marked twice.")
        def discard(params: dict, dag_run: DagRunProtocol) -> int:
            with work_on(pipeline.name):
                chosen, reason = discarded_by(params)
                quarantine = Quarantine.of(backfills.settler, with_bytes=False)
                quarantine.discard(chosen, reason, asked_by(dag_run))
                number = quarantine.discarded_by(asked_by(dag_run))  # also by earlier tries
            answer(f"{number:,} records of the quarantine were discarded")
            return number

        @task.short_circuit(
            doc_md="Says what the backfill would read, in how many chunks, and about how long it takes."
        )
        def preview(params: dict) -> JsonObject | None:
            with work_on(pipeline.name):
                facts = backfills.preview(request_of(params))
            for line in preview_lines(facts):
                log.info("%s", line)
            get_current_context()["ti"].xcom_push("preview", facts)
            if params["only_preview"]:
                answer("\n".join(["Only a preview:", *preview_lines(facts)]))
            return None if params["only_preview"] else facts

        @task(doc_md="Records the backfill in the ledger; its chunks never change after that.")
        def plan(params: dict, dag_run: DagRunProtocol) -> list[dict[str, int]]:
            with work_on(pipeline.name):
                planned = backfills.plan(request_of(params), dag_run.run_id, params["reason"] or "", asked_by(dag_run))
            log.info("backfill %s: %s chunks", planned.number, len(planned.chunks))
            return [planned.batch(n).key._asdict() for n in range(len(planned.chunks))]

        @task(
            outlets=rows_changed(pipeline),
            doc_md="Makes sure that every chunk has landed; a new table takes the target's place here.",
        )
        def finish(keys: list[dict[str, int]], done: object, dag_run: DagRunProtocol) -> list[JsonObject]:
            with work_on(pipeline.name):
                number = -keys[0]["generation"]
                record = backfills.settler.ledger.state().backfills[number]
                by = asked_by(dag_run)

                def promote() -> None:
                    run_promotion(settings, pipeline.name, number, by, log=log.info)

                chunks = backfills.finish(record.backfill, promote, by)
            return [c.to_json() for c in chunks]

        previewed = preview()
        choose() >> [previewed, cancel(), discard()]
        keys = plan()
        previewed >> keys
        chunks = MergeTask.partial(
            task_id="chunk",
            pipeline=pipeline.name,
            max_active_tis_per_dagrun=1,  # two MERGEs into one table at once would only conflict with each other
            map_index_template="{{ chunk_name }}",
            doc_md="Merges one chunk. Safe to clear at any time, in any order.",
            **ON_SPARK,
        ).expand(work=keys)
        finish(keys, chunks.output)
    return dag
