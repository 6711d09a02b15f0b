"""Names that DAGs, plugins and REST calls share."""

from __future__ import annotations

DAG_PREFIX = "lakemark__"
DATA_DOCS_DAG = "lakemark_data_docs"
GROUP_PREFIX = "lakemark_group__"
MAINTENANCE_DAG = "lakemark_maintenance"
ANSWER_KEY = "lakemark_answer"  # the XCom with what a run has to say to the person who started it
PROBLEM_KEY = "lakemark_problem"  # the XCom in which a failed task says why it failed, and what to do
OWN_RUN = "lakemark-alone://"  # the URIs of assets that start runs of pipelines in groups; none has a trigger
SPARK_POOL = "lakemark_spark"  # bounds how many Spark jobs run at once
GROUP_POOL = "lakemark_groups"  # bounds how many runs of groups do
TAG = "lakemark"
WATCH_DAG = "lakemark_watch"


def about(dag_id: str) -> str:
    """What a DAG is about, for people: a pipeline and what is done with it, or a group."""
    return dag_id.removeprefix(DAG_PREFIX).replace(GROUP_PREFIX, "group ", 1)
