"""Creates the pool that limits how many Spark jobs run at once, if Airflow starts and has no such pool.

People change its size in Airflow's UI (Admin, Pools), and this never changes it back.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from airflow.jobs.job import Job
from airflow.listeners import hookimpl
from airflow.models.pool import Pool
from airflow.plugins_manager import AirflowPlugin
from lakemark_names import SPARK_POOL
from sqlalchemy.exc import IntegrityError

from include.settings import Settings


@hookimpl
def on_starting(component: object) -> None:
    """Called in the scheduler, the triggerer and the DAG processor, and in tasks, which have no database."""
    if not isinstance(component, Job) or Pool.get_pool(SPARK_POOL) is not None:
        return
    slots = Settings.from_environment().spark_pool_slots
    with suppress(IntegrityError):  # another component has just created it
        Pool.create_or_update_pool(SPARK_POOL, slots, "Lakemark's Spark jobs", include_deferred=True)


class LakemarkSparkPool(AirflowPlugin):
    name = "lakemark_spark_pool"
    listeners = [sys.modules[__name__]]  # noqa: RUF012, Airflow's own form
