"""Calls Airflow's REST API as a user: only the few calls that Lakemark needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from include.protocol.errors import RetryableError
from include.protocol.json_data import JsonObject, JsonValue

TIMEOUT_SECONDS = 60.0
# On SQLite, a call may fail since Airflow waits for itself (docs/facts.md). What may be done twice is done again.
_AGAIN = Retry(
    status=3,
    status_forcelist=[500],
    allowed_methods=["GET", "PATCH"],
    backoff_factor=0.5,
    raise_on_status=False,
    connect=0,
    read=False,
)


@dataclass(frozen=True)
class AirflowApi:
    url: str
    session: requests.Session

    @classmethod
    def login(cls, url: str, user: str, password: str) -> Self:
        """Logs in with a name and a password: gets a token that is valid for a day."""
        session = requests.Session()
        session.mount(url, HTTPAdapter(max_retries=_AGAIN))
        api = cls(url, session)
        token = api._call("POST", "/auth/token", {"username": user, "password": password})["access_token"]
        session.headers["Authorization"] = f"Bearer {token}"
        return api

    def dag_exists(self, dag_id: str) -> bool:
        return any(dag["dag_id"] == dag_id for dag in self._get(f"/dags?dag_id_pattern={dag_id}")["dags"])

    def parsed_at(self, dag_id: str) -> datetime:
        return datetime.fromisoformat(self._get(f"/dags/{dag_id}")["last_parsed_time"])

    def import_errors(self) -> list[JsonObject]:
        return self._get("/importErrors")["import_errors"]

    def unpause(self, dag_id: str) -> None:
        self.set_paused(dag_id, False)

    def set_paused(self, dag_id: str, is_paused: bool) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": is_paused})

    def trigger(self, dag_id: str, **form: JsonValue) -> str:
        """Starts a run, with a filled-in form if the DAG has one, and returns the run's id."""
        body = {"logical_date": None, "conf": form}
        return self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"]

    def runs(self, dag_id: str) -> list[JsonObject]:
        """The newest runs, newest first: dag_run_id, state, run_type ..."""
        return self._get(f"/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100")["dag_runs"]

    def count_runs(self, dag_id: str) -> int:
        return self._get(f"/dags/{dag_id}/dagRuns?limit=1")["total_entries"]

    def asset_events(self, uri: str) -> list[JsonObject]:
        """The events of an asset, oldest first: extra, source_dag_id, source_run_id ..."""
        if (asset_id := self._asset_id(uri)) is None:
            return []
        return self._get(f"/assets/events?asset_id={asset_id}&order_by=timestamp&limit=1000")["asset_events"]

    def send_asset_event(self, uri: str) -> None:
        """As a person does it on Airflow's page."""
        self._call("POST", "/api/v2/assets/events", {"asset_id": self._asset_id(uri), "extra": {}})

    def run_state(self, dag_id: str, run_id: str) -> str:
        return self._get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"]

    def run_note(self, dag_id: str, run_id: str) -> str | None:
        return self._get(f"/dags/{dag_id}/dagRuns/{run_id}")["note"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> list[JsonObject]:
        """The lines of a try's log, as Airflow's UI shows them: event, level, error_detail ..."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        return self._get(f"{path}?full_content=true")["content"]

    def unfinished_runs(self, dag_id: str) -> list[str]:
        runs = self._get(f"/dags/{dag_id}/dagRuns?state=running&state=queued")["dag_runs"]
        return [run["dag_run_id"] for run in runs]

    def fail_run(self, dag_id: str, run_id: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", {"state": "failed"})

    def tasks(self, dag_id: str, run_id: str) -> dict[str, JsonObject]:
        """A run's task instances by task id (`ID[N]` for mapped ones): state, try_number, start_date ..."""
        found = self._get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=1000")["task_instances"]
        return {task["task_id"] + (f"[{n}]" if (n := task["map_index"]) >= 0 else ""): task for task in found}

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> JsonValue:
        """A task's return value, or its value under another key."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self._get(f"{path}?deserialize=true")["value"]

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """The links of a task's own buttons; None until the task has ended."""
        return self._get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links")["extra_links"]

    def clear(
        self, dag_id: str, run_id: str, task_id: str, map_index: int | None = None, alone: bool = False
    ) -> list[str]:
        """Clears a task (or one instance of a mapped task), and unless `alone` all tasks after it, so that they run
        again. Returns the ids of the cleared tasks."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [task_id if map_index is None else [task_id, map_index]],
            "only_failed": False,
            "include_downstream": not alone,
            "reset_dag_runs": True,
        }
        cleared = self._call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)
        return [task["task_id"] for task in cleared["task_instances"]]

    def _asset_id(self, uri: str) -> int | None:
        found = self._get(f"/assets?uri_pattern={uri}")["assets"]
        return next((asset["id"] for asset in found if asset["uri"] == uri), None)

    def _get(self, path: str) -> Any:
        return self._call("GET", f"/api/v2{path}", None)

    def _call(self, method: str, path: str, body: JsonObject | None) -> Any:
        try:
            answer = self.session.request(method, f"{self.url}{path}", json=body, timeout=TIMEOUT_SECONDS)
        except requests.RequestException as error:
            raise self._failed(f"{method} {path}", type(error).__name__) from error
        if not answer.ok:
            raise self._failed(f"{method} {path}", f"status {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def _failed(self, call: str, found: str) -> RetryableError:
        return RetryableError(
            what="Airflow's REST API refused a call, or failed",
            where=f"{call} at {self.url}",
            expected="a good answer",
            found=found,
            action="see Airflow's api-server log",
        )
