"""An example: a DAG of your own that runs after every run of `flights` and reads exactly the versions of that run.

A batch's event names one version of the table. That version never changes, whatever lands in the meantime.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from airflow.sdk import DAG, Asset, task

from include.table_events import BatchEvent

log = logging.getLogger(__name__)
FLIGHTS = Asset("lake://silver/flights")

with DAG(
    dag_id="lakemark_example_downstream",
    description="Reads exactly the version of lake://silver/flights that each batch made.",
    schedule=[FLIGHTS],
    start_date=datetime(2024, 1, 1),
    catchup=False,
    tags=["lakemark", "example"],
):

    @task
    def late_flights(*, triggering_asset_events: Mapping) -> list[dict]:
        """How many of a batch's flights depart over an hour late, from that batch's own version of the table."""
        found = []
        # Events come at least once: if there are two for one batch, one is left out.
        batches = {
            event.extra["batch_id"]: BatchEvent.from_json(event.extra) for event in triggering_asset_events[FLIGHTS]
        }
        for batch in batches.values():
            [row] = batch.query(
                "select count(*) as changed, count(case when dep_delay > 60 then 1 end) as late "
                f"from t where {batch.changed}"
            )
            log.info("batch %s, version %s: %s", batch.batch_id, batch.table_version, row)
            found.append({"batch_id": batch.batch_id, "table_version": batch.table_version, **row})
        return found

    late_flights()
