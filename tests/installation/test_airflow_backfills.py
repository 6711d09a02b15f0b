"""Backfills and replays of the quarantine from Airflow's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from include.pipeline_file import Pipeline
from include.protocol.errors import RetryableError
from tests.support.installed import Installed
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes, newest_by_key


def refill(installed: Installed, pipeline: Pipeline, **form: Any) -> tuple[str, str]:
    """A run of the pipeline's backfill DAG, and how it ended."""
    dag_id = f"lakemark__{pipeline.name}__backfill"
    run_id = installed.api.trigger(dag_id, **form)
    return run_id, installed.ended(dag_id, run_id)


def filled(installed: Installed, name: str) -> Pipeline:
    """A pipeline with three batches, all of whose rows somebody has spoiled since."""
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 40}})
    installed.dag(pipeline)
    wait_until(lambda: installed.api.dag_exists(f"lakemark__{name}__backfill"), 90)
    world.produce(topic, changes(range(100), 1))
    installed.lakemark("run", name, "--until-caught-up")
    with world.session() as spark:
        spark.sql(f"UPDATE delta.`{world.coordinator(pipeline).tables.target}` SET name = 'spoiled'").collect()
    return pipeline


@pytest.mark.slow
def test_a_backfill_from_the_form(installed: Installed) -> None:
    world, api = installed.world, installed.api
    pipeline, dag_id = filled(installed, "refilled"), "lakemark__refilled__backfill"
    with pytest.raises(RetryableError, match="records_per_chunk"):  # refused before anything runs
        api.trigger(dag_id, what="batches", batches="0", records_per_chunk=0)
    run_id, state = refill(installed, pipeline, what="batches", batches="0-1", reason="spoiled")
    assert state == "success"
    assert api.xcom(dag_id, run_id, "preview", "preview")["records_max"] == 80
    names = [row["name"] for row in as_dict(world.rows(pipeline)).values()]
    assert names.count("spoiled") == 20  # those of batch 2
    assert json.loads(installed.lakemark("backfill", "refilled", "--list", "--json"))[0]["state"] == "applied"


@pytest.mark.slow
def test_a_failed_gate_is_told_and_the_quarantine_is_replayed_from_the_form(
    installed: Installed, store: S3Server
) -> None:
    world, api = installed.world, installed.api
    topic, rule = world.topic(), {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}

    def gated(on_fail: str, *rules: dict) -> Pipeline:
        world.write_suite("gated", rules)
        return world.pipeline(topic, "gated", quality={"suite": "gated", "on_fail": on_fail})

    pipeline = gated("fail", rule)
    world.produce(topic, [*changes(range(5), 1), {"id": 9, "seq": 1}])
    dag_id = installed.dag(pipeline)
    run_id, state = installed.run(dag_id)
    assert state == "failed"
    assert "1 of 6 rows break it" in wait_until(lambda: api.run_note(dag_id, run_id))
    assert api.tasks(dag_id, run_id)["merge"]["try_number"] == 1  # a person must act

    link = wait_until(lambda: api.links(dag_id, run_id, "merge")["Data quality"])
    page, attempt_id = link.split("#")
    assert page == "https://docs.example/index.html"
    bucket = store.bucket("data-docs")
    assert installed.run("lakemark_data_docs")[1] == "success"
    assert f'<tr id="{attempt_id}">' in bucket.Object("index.html").get()["Body"].read().decode()

    gated("quarantine", rule)
    api.clear(dag_id, run_id, "merge")
    assert installed.ended(dag_id, run_id) == "success"
    assert sorted(as_dict(world.rows(pipeline))) == [0, 1, 2, 3, 4]
    [event] = api.asset_events("lake://silver/gated")
    assert event["extra"]["quality"] == "quarantined"
    gated("quarantine")
    assert refill(installed, pipeline, what="the quarantine")[1] == "success"
    assert sorted(as_dict(world.rows(pipeline))) == [0, 1, 2, 3, 4, 9]
    assert "1 replayed" in " ".join(installed.lakemark("quarantine", "list", "gated").split())


@pytest.mark.slow
def test_backfills_whole_life(installed: Installed) -> None:
    """Only a preview, a wrong form, chunks restarted one by one, a new table that takes the target's place, cancel."""
    world, api = installed.world, installed.api
    pipeline, dag_id = filled(installed, "refilled_whole"), "lakemark__refilled_whole__backfill"
    look, state = refill(installed, pipeline, what="batches", batches="0-1", only_preview=True)
    assert state == "success"
    assert api.tasks(dag_id, look)["plan"]["state"] == "skipped"
    wrong, state = refill(installed, pipeline, what="batches", batches="7")
    assert state == "failed"
    assert "batches of this generation, 0 to 2" in wait_until(lambda: api.run_note(dag_id, wrong))

    run_id, state = refill(installed, pipeline, what="batches", batches="0-1", records_per_chunk=30)
    assert state == "success"
    version = world.version(pipeline)
    api.clear(dag_id, run_id, "chunk", map_index=1)
    assert installed.ended(dag_id, run_id) == "success"
    assert world.version(pipeline) == version
    tries = {name: task["try_number"] for name, task in api.tasks(dag_id, run_id).items() if "chunk" in name}
    assert tries == {"chunk[0]": 1, "chunk[1]": 2, "chunk[2]": 1}

    made, state = refill(installed, pipeline, what="everything, into a new table")
    assert state == "success"
    for task in ("finish", "chunk", "plan", "finish", "preview"):  # its table is gone by now
        api.clear(dag_id, made, task, map_index=0 if task == "chunk" else None, alone=True)
        assert installed.ended(dag_id, made) == "success", task
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    world.produce(pipeline.source.topics[0], changes(range(10), 2))
    assert installed.run("lakemark__refilled_whole")[1] == "success"
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
    assert json.loads(installed.lakemark("audit", pipeline.name, "--json"))[0]["findings"] == []
    late, state = refill(installed, pipeline, what="cancel a backfill", backfill=2)
    assert state == "failed"
    assert "was swapped" in wait_until(lambda: api.run_note(dag_id, late))
