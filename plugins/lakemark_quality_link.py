"""The button "Data quality" of a merge task: what the suite said of the task's last attempt."""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from include.settings import Settings


class QualityLink(BaseOperatorLink):
    """To the attempt's line in the published Data Docs, or, where nobody said where they are read, to the pipeline on
    the Lakemark page.

    Airflow asks for it when a try has ended, however it ended, and keeps the answer as an XCom.
    """

    name = "Data quality"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        docs = Settings.from_environment().data_docs_url
        if docs is not None and operator.attempt_id is not None:
            return f"{docs}/index.html#{operator.attempt_id}"
        return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}/plugin/lakemark#/{operator.pipeline}"
