"""One DAG `lakemark_group__NAME` for every group that files name. Its run serves all that are due.

The DAGs `lakemark__NAME` of its pipelines have no schedule of their own then. They run if a turn in the group has
failed, is too large, or a person starts them. A pipeline whose own DAG is paused has no turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import lakemark_on_data  # in plugins/, which Airflow puts on the path
from airflow.sdk import DAG, Asset, AssetAlias, AssetWatcher
from lakemark_first_come import FIRST_COME
from lakemark_group_task import DrainTask
from lakemark_names import DAG_PREFIX, GROUP_POOL, GROUP_PREFIX, TAG
from lakemark_tasks import TASKS


def build(name: str, members: Sequence[str]) -> DAG:
    """Args: members: the names of the group's pipelines."""
    title, uri = f"group {name}: data waits", f"lakemark-waiting://group/{name}"
    waits = Asset(title, uri, watchers=[AssetWatcher(title, lakemark_on_data.OnGroup(name))])
    listed = "\n".join(f"- `{DAG_PREFIX}{member}`" for member in members)
    with DAG(
        dag_id=f"{GROUP_PREFIX}{name}",
        description=f"Runs the pipelines of the group {name} that have new data.",
        doc_md=f"{__doc__}\n\nPipelines of this group:\n\n{listed}\n",
        schedule=[waits],
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        default_args=TASKS,
        tags=[TAG, "group"],
    ) as dag:
        DrainTask(
            task_id="drain",
            group=name,
            waits=waits,  # with its watcher: of an asset that is named twice, Airflow keeps what one of the two says
            batches=AssetAlias(f"group {name}: batches"),
            alone=AssetAlias(f"group {name}: runs of their own"),
            doc_md="Gives each pipeline that is due its turn. Safe to clear at any time.",
            pool=GROUP_POOL,
            weight_rule=FIRST_COME,
        )
    return dag
