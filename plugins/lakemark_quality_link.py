"""The button "Data quality" of a merge task: it leads to the suite's verdict on the task's last attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from include.settings import Settings

if TYPE_CHECKING:
    from airflow.models.taskinstancekey import TaskInstanceKey
    from lakemark_merge_task import MergeTask


class QualityLink(BaseOperatorLink):
    """Leads to the attempt's line in the published Data Docs. If their address is not set, it leads to the pipeline on
    the Lakemark page.

    Airflow calls it when a try has ended, good or bad, and keeps the answer as an XCom.
    """

    name = "Data quality"

    def get_link(self, operator: MergeTask, *, ti_key: TaskInstanceKey) -> str:
        docs = Settings.from_environment().data_docs_url
        if docs is not None and operator.attempt_id is not None:
            return f"{docs}/index.html#{operator.attempt_id}"
        return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/plugin/lakemark#/{operator.pipeline}"
