"""The floor of `make bench-fleet`: what a run of three Python tasks costs that do nothing, on the same Airflow."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

with DAG(
    "do_nothing", schedule=None, start_date=datetime(2024, 1, 1), catchup=False, is_paused_upon_creation=False
) as dag:

    @task
    def first() -> int:
        return 1

    @task
    def second(found: int) -> int:
        return found + 1

    @task
    def third(found: int) -> int:
        return found + 1

    third(second(first()))
