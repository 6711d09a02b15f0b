"""One DAG `lakemark__NAME__savepoint` for every valid file in include/pipelines/, with a form: create, go back, drop.

preview -> act. It does the same as `lakemark savepoint` and `lakemark checkpoint restore`. A file that says when
restores are rehearsed (`checkpoints.rehearse`) makes a DAG `lakemark__NAME__rehearsal`, too.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow.sdk import DAG, Param, task
from airflow.sdk.types import DagRunProtocol
from lakemark_names import DAG_PREFIX, TAG
from lakemark_sinks_field import sinks_field
from lakemark_tasks import ON_SPARK, TASKS, answer, asked_by, rows_changed, work_on

from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.savepoints.form import CREATE, HELP, REHEARSE, Asked
from include.settings import Settings

log = logging.getLogger(__name__)
FORM = {
    "what": Param(
        CREATE,
        type="string",
        enum=list(HELP),
        title="What to do",
        description_md="; ".join(f"**{name}**: {text}" for name, text in HELP.items()),
    ),
    "savepoint": Param(
        None, type=["null", "string"], maxLength=63, title="Savepoint", description="Its name, like before-migration"
    ),
    "checkpoint": Param(
        None,
        type=["null", "string"],
        pattern=r"^(\d+/)?(\d+|start)$",
        title="Checkpoint",
        description="BATCH of the newest generation, or GENERATION/BATCH; empty, to create: the newest",
    ),
    "copy": Param(
        False,
        type="boolean",
        title="Copy",
        description="Create: data files of its own, which no VACUUM of the tables reaches",
    ),
    "keep_file": Param(
        False,
        type="boolean",
        title="Keep file",
        description="To go back to a savepoint: go on by the pipeline's files as they are, also if they say another "
        "thing now than when it was made",
    ),
    "only_preview": Param(False, type="boolean", title="Only preview", description="Say what would change, and stop"),
    "reason": Param(
        None, type=["null", "string"], maxLength=500, title="Reason", description="To go back: recorded in the ledger"
    ),
}


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__savepoint",
        description=f"Keeps states of {pipeline.name} by name, and goes back to them.",
        doc_md=__doc__,
        schedule=None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        params={**FORM, **sinks_field(pipeline)},
        default_args=TASKS,
        tags=[TAG, "savepoint"],
        is_paused_upon_creation=False,  # it runs only when somebody starts it
    ) as dag:

        @task.short_circuit(doc_md="Says what would change: rows, batches, offsets, and what becomes of every table.")
        def preview(params: dict, dag_run: DagRunProtocol) -> list[str] | None:
            with work_on(pipeline.name):
                lines = Asked.of(settings, pipeline, params, asked_by(dag_run)).preview()
            for line in lines:
                log.info("%s", line)
            if params["only_preview"]:
                answer("\n".join(["Only a preview:", *lines]))
            return None if params["only_preview"] else lines

        @task(  # an audit may ask Spark
            outlets=rows_changed(pipeline), doc_md="Does it. Safe to clear: a run does nothing twice.", **ON_SPARK
        )
        def act(params: dict, dag_run: DagRunProtocol) -> JsonObject:
            if params["what"] == REHEARSE:
                return _rehearse(settings, pipeline, params["savepoint"])
            with work_on(pipeline.name):
                return Asked.of(settings, pipeline, params, asked_by(dag_run)).act(log.info)

        preview() >> act()
    return dag


def build_rehearsal(pipeline: Pipeline, settings: Settings) -> DAG | None:
    if pipeline.checkpoints.rehearse is None:
        return None
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__rehearsal",
        description=f"Tries whether the newest savepoint of {pipeline.name} can be restored.",
        doc_md=__doc__,
        schedule=pipeline.checkpoints.rehearse,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        default_args=TASKS,
        tags=[TAG, "savepoint"],
    ) as dag:

        @task(doc_md="Safe to clear at any time.", **ON_SPARK)
        def rehearse() -> JsonObject:
            return _rehearse(settings, pipeline, None)

        rehearse()
    return dag


def _rehearse(settings: Settings, pipeline: Pipeline, savepoint: str | None) -> JsonObject:
    """Args: savepoint: its name; None: the newest whole one."""
    # Here, since every parse of this file would pay for what an audit needs.
    from include.audit.rehearsal import rehearse as rehearse_restore
    from include.savepoints.checking import newest_whole

    with work_on(pipeline.name):
        name = savepoint or newest_whole(settings, pipeline)
        done = rehearse_restore(settings, pipeline, name, log.info)
        if done.problems:
            raise TerminalError(
                what="this savepoint would not be restored as it was",
                where=f"{pipeline.name}, {name}",
                expected="a restore that an audit finds nothing in",
                found=f"{len(done.problems):,} problems",
                action="this task's log says which; make another savepoint, and look into what harmed this one",
                evidence="\n".join(done.problems),  # it may name keys of rows
            )
    answer(f"savepoint {name} would be restored as it was ({done.seconds:.0f} s)")
    return done.to_json()
