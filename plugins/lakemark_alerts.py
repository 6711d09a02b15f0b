"""Tells people, through Airflow's own notifiers, that a pipeline failed for good or that its table became stale.

The file that `LAKEMARK_ALERTS` names says whom to tell, and with which notifier (see `include.monitoring.alerts`).
"""

from __future__ import annotations

import logging

from airflow.sdk import Context
from airflow.sdk._shared.module_loading import import_string
from lakemark_names import about

from include.monitoring.alerts import Alert, load_notifiers
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)


def failed(context: Context) -> None:
    """Airflow's callback for a task that has failed and is not tried again."""
    ti = context["ti"]
    error = context.get("exception")
    text = str(error) if error else f"the task {ti.task_id} of run {ti.run_id} was killed. What to do: read its log"
    tell(Alert("failed", about(ti.dag_id), text), context)


def tell(alert: Alert, context: Context) -> None:
    """Calls every notifier. Errors are only logged: an alert must not fail the task that sends it."""
    try:
        entries = load_notifiers(Settings.from_environment().alerts)
    except LakemarkError as error:
        log.error("%s", error)
        return
    for entry in entries:
        try:
            notifier = import_string(entry.class_)(**entry.arguments)
            notifier({**context, "lakemark": alert})
        except Exception:
            log.exception("%s was not sent by %s: %s", alert.title, entry.class_, alert.text)
