"""The Lakemark page, as a browser gets it from a real Airflow: who may see it, what it shows, what it starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import requests

from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.support.batches import batch
from tests.support.browser import FLAGS, find_browser
from tests.support.hand_made import stray
from tests.support.installed import Installed
from tests.support.waiting import wait_until
from tests.support.world import changes

PATHS = (
    "/",
    "/files/page.js",
    "/api/pipelines",
    "/api/pipelines/paged",
    "/api/pipelines/paged/batches",
    "/api/pipelines/paged/quarantine",
    "/api/pipelines/paged/versions",
    "/api/pipelines/paged/quality",
    "/api/pipelines/paged/tables",
)


@pytest.fixture(scope="module")
def pipeline(installed: Installed) -> Pipeline:
    """Four batches, records in quarantine, and one that waits."""
    world = installed.world
    topic = world.topic()
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    limits = {"limits": {"records_per_batch_max": 30}}
    pipeline = world.pipeline(topic, "paged", source=limits, quality={"suite": "named"})
    installed.dag(pipeline)
    world.produce(topic, [*changes(range(100), 1), b"<script>alert(1)</script>", b"no json"])
    installed.run("lakemark__paged")
    world.produce(topic, changes(range(5), 2))
    return pipeline


def token(installed: Installed, role: str | None) -> str:
    """A login token that Airflow itself makes, for a user with this role."""
    manager = "airflow.api_fastapi.auth.managers.simple"
    code = (
        f"from {manager}.simple_auth_manager import SimpleAuthManager as M\nfrom {manager}.user import "
        f"SimpleAuthManagerUser as U\nm = M(); m.init()\nprint(m.generate_jwt(U(username='somebody', role={role!r})))"
    )
    environment = {**installed.stack.settings.child_environment(), **installed.stack.airflow.environment()}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def status_of(installed: Installed, path: str, login: str | None) -> int:
    headers = {"Authorization": f"Bearer {login}"} if login else {}
    return requests.get(f"{installed.stack.airflow.url}/lakemark{path}", headers=headers, timeout=30).status_code


def test_the_page_is_behind_airflows_login_and_permissions(installed: Installed, pipeline: Pipeline) -> None:
    nobody, viewer = token(installed, None), token(installed, "viewer")
    assert {path: status_of(installed, path, None) for path in PATHS} == dict.fromkeys(PATHS, 401)
    assert {path: status_of(installed, path, "forged") for path in PATHS} == dict.fromkeys(PATHS, 403)
    assert {path: status_of(installed, path, nobody) for path in PATHS} == dict.fromkeys(PATHS, 403)
    assert {path: status_of(installed, path, viewer) for path in PATHS} == dict.fromkeys(PATHS, 200)
    assert status_of(installed, "/api/pipelines/none_such", viewer) == 404
    assert status_of(installed, "/files/..%2froutes.py", viewer) in (404, 422)


def test_what_it_tells_of_a_pipeline(installed: Installed, pipeline: Pipeline) -> None:
    def ask(path: str) -> Any:
        return installed.api._call("GET", f"/lakemark/api/pipelines{path}", None)

    def facts() -> dict[str, Any] | None:
        found = ask("/paged")
        return found if found["lag_records"] == 5 else None

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
    batches = ask("/paged/batches?limit=3")
    assert [batch["batch_id"] for batch in batches] == [3, 2, 1]
    [attempt] = batches[0]["attempts"]
    assert attempt["log"].startswith("dags/lakemark__paged/runs/manual__")
    assert attempt["log"].endswith("/tasks/merge?try_number=1")
    [reason] = ask("/paged/quarantine")
    assert (reason["reason"], reason["records"], reason["pending"]) == ("not a JSON object", 2, 2)
    quality = ask("/paged/quality")
    assert [(j["batch_id"], j["outcome"]) for j in quality["judgements"]] == [(n, "passed") for n in range(4)]
    assert [(r["rule"], r["success"]) for r in quality["rules"]] == [("column_values_to_not_be_null(name)", True)]
    assert [v["by"] for v in ask("/paged/versions")[:2]] == ["batch 3", "batch 2"]
    assert not any(v["foreign"] for v in ask("/paged/versions"))


@dataclass
class Browser:
    page: Any
    problems: list[str]

    @property
    def frame(self) -> Any:
        return self.page.frame_locator("iframe")


@pytest.fixture
def browser(installed: Installed) -> Iterator[Browser]:
    """Chromium, logged in at Airflow, with the page open."""
    if find_browser() is None:
        pytest.skip("no Chromium for this machine: none is pinned for its platform, and it has none of its own")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = chromium.new_context(viewport={"width": 1400, "height": 1000}).new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        ours = (installed.stack.airflow.url, "blob:", "data:")
        page.on("request", lambda r: r.url.startswith(ours) or problems.append(r.url))
        page.goto(installed.stack.airflow.url)
        page.fill("input[name=username]", installed.stack.airflow.user)
        page.fill("input[name=password]", installed.stack.airflow.password)
        page.click("button[type=submit]")
        page.get_by_text("Lakemark", exact=True).click(timeout=30_000)
        yield Browser(page, problems)
        chromium.close()


def test_in_a_browser(installed: Installed, pipeline: Pipeline, browser: Browser) -> None:
    page, frame = browser.page, browser.frame
    frame.get_by_role("link", name="paged", exact=True).wait_for(timeout=30_000)

    # keys: search, to the row, open, back
    page.frames[-1].locator("body").press("/")
    page.keyboard.type("page")
    page.keyboard.press("Escape")
    assert frame.locator("[data-row]:not([hidden])").count() == 1
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    frame.get_by_role("heading", name="paged").wait_for()
    assert page.url.endswith("#/paged")  # the address can be sent around

    # the strips, and a batch with its log
    frame.get_by_role("img", name="committed to").first.wait_for()
    assert frame.locator("rect.waiting").count() >= 1
    frame.get_by_role("button", name="batch 2", exact=True).click()
    assert "30 read = " in frame.locator("tr.details").inner_text()
    assert frame.locator("tr.details a", has_text="log").count() == 1

    # what was quarantined is text, never markup
    frame.get_by_text("not a JSON object").click()
    assert "<script>alert(1)</script>" in frame.locator("section[aria-label=Quarantine]").inner_text()

    # what is proven: never is not green; a repair that is due
    target = frame.locator("tr[data-table=target]")
    assert target.locator(".state.never-proven").count() == 1
    world = installed.world
    installed.lakemark("audit", "paged", "--deep")
    target.locator(".state.proven").wait_for(timeout=30_000)
    assert target.inner_text().count("up to batch 3") == 2  # by rows, and by log
    frame.locator("h1 .state.ok").wait_for(timeout=20_000)
    stray(world.coordinator(pipeline).tables.quarantine, replace(batch(3), pipeline="paged"), revision=1)
    frame.get_by_text("Repair due: quarantine.").wait_for(timeout=30_000)
    installed.lakemark("audit", "paged", code=1)
    frame.locator("tr[data-table=quarantine] .state.findings").wait_for(timeout=30_000)
    frame.locator("h1 .state.findings").wait_for(timeout=20_000)

    # what the suite said, and how to replay
    assert "Suite named" in frame.locator("section[aria-label=Quality]").inner_text()
    frame.get_by_role("button", name="Replay quarantine …").click()
    frame.get_by_role("dialog", name="Replay the quarantine").get_by_role("button", name="Cancel").click()

    # it goes on by itself
    page.evaluate("document.documentElement.classList.replace('light', 'dark')")
    frame.locator(":root[data-theme=dark]").wait_for(state="attached")
    installed.lakemark("run", "paged")
    frame.get_by_role("button", name="batch 4", exact=True).wait_for(timeout=20_000)
    frame.get_by_text("Repair due: quarantine.").wait_for(state="detached", timeout=30_000)

    # an action starts a DAG, and goes to its run
    frame.get_by_role("button", name="Backfill batch 2 …").click()
    frame.get_by_label("Only preview").check()
    frame.get_by_role("button", name="Start").click()
    page.wait_for_url("**/dags/lakemark__paged__backfill/runs/*", timeout=30_000)
    run_id = requests.utils.unquote(page.url.split("/runs/")[1].split("/")[0].split("?")[0])
    assert installed.ended("lakemark__paged__backfill", run_id) == "success"
    assert installed.api.xcom("lakemark__paged__backfill", run_id, "preview", "preview")["records_max"] == 30
    assert world.coordinator(pipeline).ledger.state().backfills == {}
    assert browser.problems == []


def test_no_asset_of_it_is_of_a_foreign_host() -> None:
    files = sorted((PROJECT_ROOT / "plugins" / "lakemark_page_app" / "files").iterdir())
    assert len(files) > 5
    found = [(file.name, word) for file in files for word in ("http:", "https:", "//cdn") if word in file.read_text()]
    assert [f for f in found if f not in [("icon.svg", "http:"), ("dom.js", "http:")]] == []  # names of XML namespaces
    assert sum(file.stat().st_size for file in files) < 60_000
