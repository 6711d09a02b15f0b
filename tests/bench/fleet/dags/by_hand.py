"""What a user of Airflow has without Lakemark: a DAG that runs a `foreachBatch` job by spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, task

with DAG(
    "by_hand", schedule=None, start_date=datetime(2024, 1, 1), catchup=False, is_paused_upon_creation=False
) as dag:

    @task
    def merge() -> None:
        subprocess.run(json.loads(Path(os.environ["LAKEMARK_BENCH_BY_HAND"]).read_text()), check=True)

    merge()
