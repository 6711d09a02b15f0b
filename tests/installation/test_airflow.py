"""Lakemark as a user has it: `lakemark up`, Airflow's own scheduler and REST API, `lakemark down`."""

from __future__ import annotations

from typing import Any

import pytest

from include.table_events import BatchEvent
from tests.support.installed import Installed
from tests.support.receivers import Lineage
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key


def test_a_yaml_file_is_a_dag_that_merges_and_reruns_safely(installed: Installed, lineage: Lineage) -> None:
    world, api = installed.world, installed.api
    topic = world.topic()
    pipeline = world.pipeline(topic, "orders", source={"limits": {"records_per_batch_max": 40}})
    dag_id = installed.dag(pipeline)
    world.produce(topic, changes(range(100), 1))
    first, state = installed.run(dag_id)  # three batches, one after the other in one job
    assert state == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert [r["outcome"] for r in api.xcom(dag_id, first, "merge")] == ["applied"] * 3
    events = [BatchEvent.from_json(event["extra"]) for event in api.asset_events("lake://silver/orders")]
    assert [(e.batch_id, e.counts["read"]) for e in events] == [(0, 40), (1, 40), (2, 20)]
    of_version = [e.query("select count(*) as n from t", world.settings)[0]["n"] for e in events]
    assert of_version == [40, 80, 100]
    assert [e.versions["target"] for e in events] == [e.table_version for e in events]
    assert [e.tables(world.settings)["target"].version() for e in events] == [e.table_version for e in events]

    metrics = installed.metrics.last
    wait_until(lambda: metrics.get("airflow.lakemark.lag_records.orders") == "100|g", 10)
    assert float(metrics["airflow.lakemark.lag_seconds.orders"].removesuffix("|g")) > 0
    assert metrics["airflow.lakemark.batches.orders"] == "1|c"
    assert metrics["airflow.lakemark.records_read.orders"] == "20|c"  # of the last batch
    assert metrics["airflow.lakemark.merge_duration.orders"].endswith("|ms")

    lines = api.task_log(dag_id, first, "merge", 1)
    named = [(line["batch_id"], line["attempt_id"]) for line in lines if line.get("attempt_id")]
    assert [batch for batch, _ in dict.fromkeys(named)] == [0, 1, 2]  # an attempt each
    assert {line["pipeline"] for line in lines if "batch_id" in line} == {"orders"}
    told = wait_until(lambda: lineage.outputs("/silver/orders"))[0]
    [output] = told["outputs"]
    assert (told["job"]["name"], output["facets"]["version"]["datasetVersion"]) == (f"{dag_id}.settle", "3")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 100
    [column] = output["facets"]["columnLineage"]["fields"]["name"]["inputFields"]
    assert (column["namespace"], column["name"], column["field"]) == (
        f"kafka://{world.bootstrap_servers}",
        topic,
        "name",
    )

    idle, state = installed.run(dag_id)  # nothing new: green, and nothing is run
    assert state == "success"
    assert installed.states(dag_id, idle) == {"plan": "success", "merge": "skipped", "settle": "skipped"}

    version = world.version(pipeline)
    api.clear(dag_id, first, "merge")
    assert installed.ended(dag_id, first) == "success"
    assert api.xcom(dag_id, first, "merge") == [{"generation": 1, "batch_id": 0, "outcome": "already_applied"}]
    assert world.version(pipeline) == version
    again = [BatchEvent.from_json(event["extra"]) for event in api.asset_events("lake://silver/orders")[3:]]
    assert again == events  # at least once, and the same


@pytest.mark.slow
def test_with_merge_every_runs_land_and_every_so_often_one_merges(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline = world.pipeline(world.topic(), "landed", archive="lake://bronze/landed", merge_every=2)
    dag_id = installed.dag(pipeline)
    merging, landing = ("plan", "merge", "settle"), ("plan_landing", "land", "settle_landing")

    def states(run_id: str) -> tuple[set[str], set[str]]:
        found = installed.states(dag_id, run_id)
        return {found[task] for task in landing}, {found[task] for task in merging}

    world.produce(pipeline.source.topics[0], changes(range(30), 1))
    first, state = installed.run(dag_id)
    assert state == "success"
    assert states(first) == ({"success"}, {"success", "skipped"})  # landed, and not merged
    assert world.rows(pipeline) == []
    world.produce(pipeline.source.topics[0], changes(range(40), 2))
    second, state = installed.run(dag_id)
    assert (state, *states(second)) == ("success", {"success"}, {"success"})
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    world.produce(pipeline.source.topics[0], changes(range(20), 3))
    third, _ = installed.run(dag_id)
    version = world.version(pipeline)
    api.clear(dag_id, first, "land")  # and all that follows: what waits since the third run is merged or waits on
    assert installed.ended(dag_id, first) == "success"
    rest, state = installed.run(dag_id)  # nothing new in Kafka: what waits is merged
    assert state == "success"
    assert states(rest)[0] == {"success", "skipped"}
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert world.version(pipeline) == version + 1
    assert states(third)[0] == {"success"}


@pytest.mark.slow
def test_data_starts_a_run_and_the_table_starts_the_next(installed: Installed) -> None:
    """on_data, the table's asset event, and after it another pipeline and the example DAG, which reads that version."""
    world, api = installed.world, installed.api
    topic = world.topic()
    upstream = world.pipeline(
        topic,
        "watched",
        schedule={"on_data": {"records": 1000, "seconds": 3}},
        source={"schema": "id BIGINT, seq BIGINT, name STRING, op STRING, dep_delay INT"},
        target={"table": "lake://silver/flights"},
    )
    second = world.topic()
    downstream = world.pipeline(second, "after_flights", schedule={"tables": ["lake://silver/flights"]})
    dag_id, after_id = installed.dag(upstream), installed.dag(downstream)
    api.unpause("lakemark_example_downstream")
    world.produce(second, changes(range(10), 1))
    sent = world.produce(topic, [{**order, "dep_delay": order["id"]} for order in changes(range(100), 1)])

    def done(of: str) -> dict[str, Any] | None:
        return next((run for run in api.runs(of) if run["state"] == "success"), None)

    wait_until(lambda: as_dict(world.rows(upstream)) == newest_by_key(sent), 240)
    assert {run["run_type"] for run in api.runs(dag_id)} == {"asset_triggered"}
    wait_until(lambda: done(after_id), 240)
    assert len(world.rows(downstream)) == 10  # it took what had waited for it
    example = wait_until(lambda: done("lakemark_example_downstream"), 120)
    [read] = api.xcom("lakemark_example_downstream", example["dag_run_id"], "late_flights")
    assert (read["batch_id"], read["changed"], read["late"]) == (0, 100, 39)
    assert read["table_version"] == api.asset_events("lake://silver/flights")[0]["extra"]["table_version"]
    assert len(api.runs(dag_id)) <= 2  # the first look starts one that finds nothing, or the data itself
