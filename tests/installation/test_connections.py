"""Airflow keeps the login of a pipeline's brokers: its tasks and the page use the connection, and no log shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from tests.support.guarded_broker import LOGIN, PASSWORD, USER, guarded_broker
from tests.support.installed import Installed
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, changes, newest_by_key

CONNECTION = "kafka_guarded"


@pytest.mark.slow
def test_a_login_comes_from_an_airflow_connection(installed: Installed, tmp_path: Path) -> None:
    with guarded_broker(installed.stack, tmp_path / "broker") as servers:
        world = World(servers, login=LOGIN, settings=installed.world.settings)
        topic = world.topic()
        security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "connection": CONNECTION}
        pipeline = world.pipeline(topic, "by_connection", source={"bootstrap_servers": servers, "security": security})
        world.produce(topic, changes(range(20), 1))
        dag_id = installed.dag(pipeline)
        api = installed.api
        page = f"{api.url}/lakemark/api/pipelines"

        def on_page() -> dict[str, object]:
            return next(p for p in api.session.get(page, timeout=30).json()["pipelines"] if p["name"] == pipeline.name)

        wait_until(
            lambda: f"the Airflow connection {CONNECTION} is not known" in str(on_page()), 60
        )  # and the page stays up
        run_id = api.trigger(dag_id)
        wait_until(lambda: installed.states(dag_id, run_id).get("plan") == "up_for_retry", 60)
        assert f"AIRFLOW_CONN_{CONNECTION.upper()}" in log_of(installed, dag_id, run_id, "plan", 1)

        body = {"connection_id": CONNECTION, "conn_type": "kafka", "login": USER, "password": PASSWORD}
        answer = api.session.post(f"{api.url}/api/v2/connections", json=body, timeout=30)
        assert answer.status_code == requests.codes.created, answer.text
        assert installed.ended(dag_id, run_id) == "success"
        assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
        world.produce(topic, changes(range(5), 2))
        wait_until(lambda: on_page()["lag_records"] == 5, 90)

        by_hand = json.dumps({"conn_type": "kafka", "login": USER, "password": PASSWORD})
        said = installed.lakemark("plan", pipeline.name, "--dry-run", **{f"AIRFLOW_CONN_{CONNECTION.upper()}": by_hand})
        assert "would be planned" in said
        logs = [log_of(installed, dag_id, run_id, task, 1) for task in ("merge", "settle")]
        logs.append(log_of(installed, dag_id, run_id, "plan", 2))
        assert [log for log in logs if "5ecret" in log] == []
        home = installed.stack.settings.home
        files = [p for p in (home / "airflow" / "logs").rglob("*") if p.is_file() and pipeline.name in str(p)]
        assert len(files) >= 4
        assert [p for p in files if b"5ecret" in p.read_bytes()] == []


def log_of(installed: Installed, dag_id: str, run_id: str, task: str, number: int) -> str:
    return json.dumps(installed.api.task_log(dag_id, run_id, task, number))
