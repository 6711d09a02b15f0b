"""Creates the pools that limit how many Spark jobs run at once, if Airflow starts and has no such pools.

People change their sizes in Airflow's UI (Admin, Pools), and this never changes them back.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from airflow.jobs.job import Job
from airflow.listeners import hookimpl
from airflow.models.pool import Pool
from airflow.plugins_manager import AirflowPlugin
from lakemark_names import GROUP_POOL, SPARK_POOL
from sqlalchemy.exc import IntegrityError

from include.settings import Settings

# Runs of groups take small turns, and wait for no large batch, backfill or maintenance.
_POOLS = {SPARK_POOL: "Lakemark's Spark jobs", GROUP_POOL: "Runs of Lakemark's groups"}


@hookimpl
def on_starting(component: object) -> None:
    """Called in the scheduler, the triggerer and the DAG processor, and in tasks, which have no database."""
    if not isinstance(component, Job):
        return
    for name, text in _POOLS.items():
        if Pool.get_pool(name) is None:
            slots = Settings.from_environment().spark_pool_slots
            with suppress(IntegrityError):  # another component has just created it
                Pool.create_or_update_pool(name, slots, text, include_deferred=True)


class LakemarkSparkPool(AirflowPlugin):
    name = "lakemark_spark_pool"
    listeners = [sys.modules[__name__]]  # noqa: RUF012, Airflow's own form
