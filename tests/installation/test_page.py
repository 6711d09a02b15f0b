"""The Lakemark page's answers, from a real Airflow: who may have them, and what they say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import requests

from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.support.installed import Installed
from tests.support.rights import NO_LOGS, ONLY
from tests.support.waiting import wait_until

PATHS = (
    "/",
    "/files/page.js",
    "/api/pipelines",
    "/api/pipelines/shown",
    "/api/pipelines/shown/trends",
    "/api/pipelines/shown/timeline",
    "/api/pipelines/shown/columns",
    "/api/pipelines/shown/rows",
    "/api/pipelines/shown/compare?before=0&after=1",
    "/api/pipelines/shown/lineage",
    "/api/pipelines/shown/sinks",
    "/api/pipelines/shown/quarantine",
    "/api/pipelines/shown/versions",
    "/api/pipelines/shown/quality",
    "/api/pipelines/shown/tables",
)


def token(installed: Installed, role: str | None, name: str = "somebody") -> str:
    """A login token that Airflow itself makes, for a user with this role. Args: name: see `rights`."""
    manager = "airflow.api_fastapi.auth.managers.simple"
    code = (
        f"from {manager}.simple_auth_manager import SimpleAuthManager as M\nfrom {manager}.user import "
        f"SimpleAuthManagerUser as U\nm = M(); m.init()\nprint(m.generate_jwt(U(username={name!r}, role={role!r})))"
    )
    environment = {**installed.stack.settings.child_environment(), **installed.stack.airflow.environment()}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def answer(installed: Installed, path: str, login: str | None) -> requests.Response:
    headers = {"Authorization": f"Bearer {login}"} if login else {}
    return requests.get(f"{installed.stack.airflow.url}/lakemark{path}", headers=headers, timeout=30)


def status_of(installed: Installed, path: str, login: str | None) -> int:
    return answer(installed, path, login).status_code


def test_the_page_is_behind_airflows_login_and_permissions(installed: Installed, shown: Pipeline) -> None:
    nobody, viewer = token(installed, None), token(installed, "viewer")
    assert {path: status_of(installed, path, None) for path in PATHS} == dict.fromkeys(PATHS, 401)
    assert {path: status_of(installed, path, "forged") for path in PATHS} == dict.fromkeys(PATHS, 403)
    assert {path: status_of(installed, path, nobody) for path in PATHS} == dict.fromkeys(PATHS, 403)
    assert {path: status_of(installed, path, viewer) for path in PATHS} == dict.fromkeys(PATHS, 200)
    assert status_of(installed, "/api/pipelines/none_such", viewer) == 404
    assert status_of(installed, "/files/..%2froutes.py", viewer) in (404, 422)


def test_without_the_right_to_read_task_logs_no_value_of_a_record_is_told(
    installed: Installed, shown: Pipeline
) -> None:
    """The largest id of a batch is a value of a record."""
    login = token(installed, "viewer", NO_LOGS)
    quality = "/api/pipelines/shown/quality"
    private = ("/rows", "/compare?before=0&after=1", "/quarantine")
    assert [status_of(installed, f"/api/pipelines/shown{path}", login) for path in private] == [403, 403, 403]
    observed = {rule["rule"]: rule["observed"] for rule in answer(installed, quality, login).json()["rules"]}
    assert observed == {"column_values_to_not_be_null(name)": None, "column_max_to_be_between(id)": None}
    [told] = [
        rule["observed"]
        for rule in answer(installed, quality, token(installed, "viewer")).json()["rules"]
        if rule["rule"] == "column_max_to_be_between(id)"
    ]
    assert told == 99


def test_who_may_read_one_pipeline_sees_nothing_of_another_one(installed: Installed, shown: Pipeline) -> None:
    broken = installed.stack.settings.pipelines / "salaries.yaml"
    broken.write_text("name: salaries\ndescription: {private: topic}\n")
    try:
        one, other, all_ = (token(installed, "viewer", name) for name in (f"{ONLY}lakemark__shown", f"{ONLY}x", "y"))
        wait_until(lambda: "salaries" in str(answer(installed, "/api/pipelines", all_).json()["broken"]), 60)
        told = answer(installed, "/api/pipelines", one).json()
        assert [found["name"] for found in told["pipelines"]] == ["shown"]
        assert told["broken"] == []
        mine, theirs = f"/api/pipelines/{shown.name}", "/api/pipelines/salaries"
        assert (status_of(installed, mine, one), status_of(installed, theirs, one)) == (200, 403)
        assert {path: status_of(installed, path, other) for path in PATHS if "shown" in path} == dict.fromkeys(
            (path for path in PATHS if "shown" in path), 403
        )
    finally:
        broken.unlink()


def test_what_it_tells_of_a_pipeline(installed: Installed, shown: Pipeline) -> None:
    def ask(path: str) -> Any:
        return installed.api._call("GET", f"/lakemark/api/pipelines{path}", None)

    def facts() -> dict[str, Any] | None:
        found = ask("/shown")
        return found if found["lag_records"] == 5 and found["quarantine"] is not None else None  # each is read apart

    told = wait_until(facts, 60)
    assert (told["commits"], told["last_batch"], told["state"]) == (4, 3, "unproven")
    assert told["why"].startswith("never proven: quarantine, target.")
    assert told["records"] == {
        "read": 102,
        "applied": 100,
        "superseded": 0,
        "stale": 0,
        "quarantined": 2,
        "filtered": 0,
    }
    assert sum(p["committed"] for p in told["partitions"]) == 102
    assert sum(p["log_end"] for p in told["partitions"]) == 107
    assert told["quarantine"] == {"waiting": 2, "ever": 2}
    assert {source: age < 10 for source, age in told["ages"].items()} == dict.fromkeys(told["ages"], True)
    batches = ask("/shown?limit=3")["batches"]
    assert [batch["batch_id"] for batch in batches] == [3, 2, 1]
    [attempt] = batches[0]["attempts"]
    assert attempt["log"].startswith("dags/lakemark__shown/runs/manual__")
    assert attempt["log"].endswith("/tasks/merge?try_number=1")
    [reason] = ask("/shown/quarantine")
    assert (reason["reason"], reason["records"], reason["pending"]) == ("not a JSON object", 2, 2)
    quality = ask("/shown/quality")
    assert [(j["batch_id"], j["outcome"]) for j in quality["judgements"]] == [(n, "passed") for n in range(4)]
    rules = ("column_values_to_not_be_null(name)", "column_max_to_be_between(id)")
    assert [(r["rule"], r["success"]) for r in quality["rules"]] == [(rule, True) for rule in rules]
    assert [v["by"] for v in ask("/shown/versions")[:2]] == ["batch 3", "batch 2"]
    assert not any(v["foreign"] for v in ask("/shown/versions"))


def test_no_asset_of_it_is_of_a_foreign_host() -> None:
    files = sorted((PROJECT_ROOT / "plugins" / "lakemark_page_app" / "files").iterdir())
    assert len(files) > 5
    found = [(file.name, word) for file in files for word in ("http:", "https:", "//cdn") if word in file.read_text()]
    assert [f for f in found if f not in [("icon.svg", "http:"), ("dom.js", "http:")]] == []  # names of XML namespaces
    assert sum(file.stat().st_size for file in files) < 100_000


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({}, "what"),
        ({"what": ["batches"]}, "what"),
        ({"what": "the quarantine", "rule": "\ud800x"}, "rule"),
        ({"what": "offset ranges", "ranges": ["\ud800"]}, "ranges"),
        ({"what": "batches"}, "ids of batches"),
        ({"what": "batches", "batches": 3}, "batches"),
        ({"what": "batches", "batches": "3-1"}, ""),
        ({"what": "offset ranges", "ranges": [{"a": 1}]}, "ranges"),
        ({"what": "offset ranges", "ranges": ["x"]}, "Offset ranges"),
        ({"what": "a time span", "since": "0001-01-01"}, "a time from 1970 on"),
        ({"what": "the quarantine", "rule": "none_such"}, "no record in the quarantine has broken a rule"),
        ({"what": "batches", "batches": "0", "records_per_chunk": "5"}, "records_per_chunk"),
    ],
)
def test_a_preview_of_nonsense_says_what_is_wrong(
    installed: Installed, shown: Pipeline, form: dict[str, Any], says: str
) -> None:
    url = f"{installed.stack.airflow.url}/lakemark/api/pipelines/shown/preview"
    answer = installed.api.session.post(url, json=form, timeout=30)
    assert answer.status_code in (400, 422)
    assert says in answer.text
