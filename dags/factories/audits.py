"""One DAG `lakemark__NAME__audit` for every valid file in include/pipelines/: proves that every batch was applied once.

It does the same as `lakemark audit`, and fails if there are findings. The ledger keeps what it has seen.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param, task
from airflow.sdk.types import DagRunProtocol
from lakemark_names import DAG_PREFIX, TAG
from lakemark_tasks import ON_SPARK, TASKS, answer, asked_by, work_on  # in plugins/, which Airflow puts on the path

from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings


def build(pipeline: Pipeline, settings: Settings) -> DAG:
    with DAG(
        dag_id=f"{DAG_PREFIX}{pipeline.name}__audit",
        description=f"Proves that every batch of {pipeline.name} was applied once, and adds up.",
        doc_md=__doc__,
        schedule=None,
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        params={
            "deep": Param(
                False,
                type="boolean",
                title="Deep",
                description="Compute the tables again from the records that Kafka holds, and compare every row",
            )
        },
        default_args=TASKS,
        tags=[TAG, "audit"],
        is_paused_upon_creation=False,  # it runs only when somebody starts it
    ) as dag:

        @task(doc_md="Safe to clear at any time.", **ON_SPARK)  # a deep one may ask Spark about conditions
        def audit(params: dict, dag_run: DagRunProtocol) -> JsonObject:
            # Here, since every parse of this file would pay for what an audit needs.
            from include.audit.auditor import audit as audit_of
            from include.audit.proofs import record

            with work_on(pipeline.name):
                found = audit_of(settings, pipeline, params["deep"])
                not_recorded = record(settings, pipeline, found, asked_by(dag_run))
                lines = "\n".join(found.lines(not_recorded))
                if found.findings:
                    raise TerminalError(
                        what=f"the audit has {len(found.findings):,} findings",
                        where=pipeline.name,
                        expected="none",
                        found="; ".join(dict.fromkeys(finding.what for finding in found.findings))[:500],
                        action="this task's log says where, and what to do about each",
                        evidence=lines,  # it may name keys of rows
                    )
            answer(lines)
            return found.to_json()

        audit()
    return dag
