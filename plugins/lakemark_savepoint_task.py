"""The task by which a DAG of a user's own takes a savepoint: `SavepointTask(task_id="save", pipeline="orders")`."""

from __future__ import annotations

import logging
import re
from typing import Any

from airflow.sdk import BaseOperator, Context
from lakemark_tasks import work_on  # in plugins/, which Airflow puts on the path

from include.pipeline_file import find_pipeline
from include.savepoints.form import CREATE, Asked
from include.settings import Settings

log = logging.getLogger(__name__)


class SavepointTask(BaseOperator):
    """Takes a savepoint of a pipeline's newest checkpoint. Safe to clear: a run takes one of a name only once.

    Args:
        pipeline: its name. savepoint: the savepoint's name, in which Jinja may stand; None: one is made of the run's
            id. is_copy: it gets data files of its own. reason: what it is for.

    Returns:
        The savepoint's name.
    """

    template_fields = ("savepoint", "reason")
    ui_color = "#e8e4f3"

    def __init__(
        self, *, pipeline: str, savepoint: str | None = None, is_copy: bool = False, reason: str = "", **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.pipeline, self.savepoint, self.is_copy, self.reason = pipeline, savepoint, is_copy, reason

    def execute(self, context: Context) -> str:
        settings = Settings.from_environment()
        with work_on(self.pipeline):
            pipeline = find_pipeline(self.pipeline, settings.pipelines, settings.environment)
            run = context["dag_run"]
            name = self.savepoint or re.sub(r"[^A-Za-z0-9_.-]", "-", run.run_id)[:63]
            told = {"what": CREATE, "savepoint": name, "checkpoint": None, "copy": self.is_copy, "reason": self.reason}
            by = f"airflow {run.dag_id} {run.run_id}"
            Asked.of(settings, pipeline, told, by).act(log.info)
        return name
