"""An executor whose workers begin with everything imported that Lakemark's tasks and jobs use.

Airflow's local executor forks its workers when it starts, a worker forks each task, and a task forks its job
(`include.jobs.fork`). So what is imported here once is there for all of them. `AIRFLOW__CORE__EXECUTOR` names it;
`lakemark up` does.
"""

from __future__ import annotations

import importlib
import logging

from airflow.executors.local_executor import LocalExecutor

from include.jobs.fork import import_job
from include.pipeline_file.loading import clashing
from include.settings import Settings

log = logging.getLogger(__name__)
USED_BY_TASKS = (
    "airflow.sdk.execution_time.task_runner",
    "airflow.providers.standard.decorators.python",
    "airflow.providers.standard.decorators.short_circuit",
    "dags.factories.of_file",
    "lakemark_group_task",
    "lakemark_lineage",
    "lakemark_merge_task",
    "lakemark_on_data",
    "lakemark_run_task",
    "lakemark_tasks",
    "include.table_events",
)


class WarmLocalExecutor(LocalExecutor):
    """The local executor; see above."""

    def start(self) -> None:
        try:
            import_job()
            for name in USED_BY_TASKS:
                importlib.import_module(name)
            clashing(Settings.from_environment().pipelines)  # keeps what files name, so that a task reads the new ones
        except Exception:  # tasks import what they need themselves, and report what is wrong with it
            log.exception("the workers begin without Lakemark's modules")
        super().start()
