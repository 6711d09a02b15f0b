"""Orders the tasks that wait for the pool of Spark jobs: first come, first served.

Airflow orders waiting tasks by weight, then by the run's logical date. Runs that data starts have no date, so their
order is the database's. With more pipelines than slots the first few would be served again and again, and the last ones
never (in a trial with 20 pipelines, 14 of them waited to the end).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow.plugins_manager import AirflowPlugin
from airflow.task.priority_strategy import PriorityWeightStrategy

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

_HIGHEST = 1_000_000_000  # Airflow's weights are 32 bits wide
_BEGINNING = 1_735_689_600  # 2025-01-01, in seconds since 1970


class FirstComeFirstServed(PriorityWeightStrategy):
    """A task's weight by its time: every second later weighs one less.

    All these weights are greater than other DAGs' weights. The pool's few slots limit what that takes from others.
    """

    def get_weight(self, ti: TaskInstance) -> int:
        return _HIGHEST - (int(time.time()) - _BEGINNING)


# For DAG files. For a mapped task, Airflow would turn an instance into text that it cannot read again.
FIRST_COME = f"{__name__}.{FirstComeFirstServed.__qualname__}"


class LakemarkFirstCome(AirflowPlugin):
    name = "lakemark_first_come"
    priority_weight_strategies = [FirstComeFirstServed]  # noqa: RUF012, Airflow's own form
