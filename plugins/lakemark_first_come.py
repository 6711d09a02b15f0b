"""Turns at the pool of Spark jobs: the run that came first goes first.

Airflow orders waiting tasks by weight, then by the run's logical date. Runs that data starts have no date, so the order
is whatever the database gives: with more pipelines than slots the first few would be served again and again, and the
last ones never (seen with 20 pipelines: 14 of them waited for as long as it ran).
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
    """The weight of a task that is made now; every second later weighs one less.

    All of them weigh more than other DAGs' tasks. The pool's few slots bound what that can take from others.
    """

    def get_weight(self, ti: TaskInstance) -> int:
        return _HIGHEST - (int(time.time()) - _BEGINNING)


# For DAG files: Airflow turns an instance into text that it cannot read again where a task is mapped.
FIRST_COME = f"{__name__}.{FirstComeFirstServed.__qualname__}"


class LakemarkFirstCome(AirflowPlugin):
    name = "lakemark_first_come"
    priority_weight_strategies = [FirstComeFirstServed]  # noqa: RUF012, Airflow's own form
