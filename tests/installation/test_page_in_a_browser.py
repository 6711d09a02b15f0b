"""The Lakemark page in a real Chromium, within a real Airflow: what people see, how old it is, and what they can do."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import requests

from include.pipeline_file import Pipeline
from tests.support.batches import batch
from tests.support.browser import FLAGS, find_browser
from tests.support.hand_made import stray
from tests.support.installed import Installed
from tests.support.waiting import wait_until
from tests.support.world import changes


@dataclass
class Browser:
    installed: Installed
    page: Any
    problems: list[str]

    @property
    def frame(self) -> Any:
        return self.page.frame_locator("iframe")

    def open(self, name: str = "") -> Any:
        """Opens a pipeline's view, or the list; returns the frame."""
        self.page.goto(f"{self.installed.stack.airflow.url}/plugin/lakemark#/{name}")
        self.page.reload()
        self.frame.get_by_role("heading", name=name or "Pipelines", exact=False).first.wait_for(timeout=30_000)
        return self.frame

    def do(self, button: str, verb: str, **fields: str) -> Any:
        """Fills in a dialog of an action. Returns the dialog."""
        self.frame.get_by_role("button", name=button).click()
        dialog = self.frame.get_by_role("dialog")
        for label, text in fields.items():
            dialog.get_by_label(label.replace("_", " ")).fill(text)
        if verb:
            dialog.get_by_role("button", name=verb, exact=True).click()
        return dialog

    def ran(self, dag_id: str) -> tuple[str, str]:
        """The id and the end of the run that the page has just gone to."""
        self.page.wait_for_url(f"**/dags/{dag_id}/runs/*", timeout=30_000)
        run_id = requests.utils.unquote(self.page.url.split("/runs/")[1].split("/")[0].split("?")[0])
        return run_id, self.installed.ended(dag_id, run_id)


@pytest.fixture(scope="module")
def browser(installed: Installed) -> Iterator[Browser]:
    """Chromium, logged in at Airflow."""
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
        page.get_by_text("Lakemark", exact=True).wait_for(timeout=30_000)
        yield Browser(installed, page, problems)
        assert problems == []
        chromium.close()


def made(installed: Installed, name: str, *records: list[Any], **sections: Any) -> Pipeline:
    """A pipeline with a batch for every list of records."""
    world = installed.world
    topic = world.topic()
    limits = {"limits": {"records_per_batch_max": max(map(len, records))}}
    pipeline = world.pipeline(topic, name, source=limits, **sections)
    for values in records:
        world.produce(topic, values)
        installed.lakemark("run", name)
    return pipeline


@pytest.fixture(scope="module")
def shown(installed: Installed) -> Pipeline:
    """Four batches, records in quarantine, and some that wait."""
    world = installed.world
    topic = world.topic()
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    limits = {"limits": {"records_per_batch_max": 30}}
    pipeline = world.pipeline(topic, "shown", source=limits, quality={"suite": "named"})
    installed.dag(pipeline)
    world.produce(topic, [*changes(range(100), 1), b"<script>alert(1)</script>", b"no json"])
    installed.run("lakemark__shown")
    world.produce(topic, changes(range(5), 2))
    return pipeline


def test_in_a_browser(installed: Installed, shown: Pipeline, browser: Browser) -> None:
    page, frame = browser.page, browser.open()
    frame.get_by_role("link", name="shown", exact=True).wait_for(timeout=30_000)
    row = frame.locator('[data-row^="shown "]', has_text="2 wait")
    row.wait_for(timeout=30_000)
    assert "2 ever" in row.inner_text()

    # keys: search, to the row, open, back
    page.frames[-1].locator("body").press("/")
    page.keyboard.type("shown")
    page.keyboard.press("Escape")
    assert frame.locator("[data-row]:not([hidden])").count() == 1
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    frame.get_by_role("heading", name="shown").wait_for()
    assert page.url.endswith("#/shown")  # the address can be sent around

    # the strips, and a batch with its log
    frame.get_by_role("img", name="committed to").first.wait_for()
    assert frame.locator("rect.waiting").count() >= 1
    frame.get_by_role("button", name="batch 2", exact=True).click()
    assert "30 read = " in frame.locator("tr.details").inner_text()
    assert frame.locator("tr.details a", has_text="log").count() == 1

    # legends name only what occurs
    told = frame.locator("section[aria-label=Offsets] .legend").inner_text().split()
    assert told == ["committed", "waiting"]
    assert "superseded" not in frame.locator("tr.legends").inner_text()

    # what was quarantined is text, never markup
    frame.get_by_text("not a JSON object").click()
    assert "<script>alert(1)</script>" in frame.locator("section[aria-label=Quarantine]").inner_text()

    # what is proven: never is not green; a repair that is due
    target = frame.locator("tr[data-table=target]")
    assert target.locator(".state.never-proven").count() == 1
    world = installed.world
    installed.lakemark("audit", "shown", "--deep")
    target.locator(".state.proven").wait_for(timeout=30_000)
    assert target.inner_text().count("up to batch 3") == 2  # by rows, and by log
    frame.locator("h1 .state.ok").wait_for(timeout=20_000)
    stray(world.coordinator(shown).tables.quarantine, replace(batch(3), pipeline="shown"), revision=1)
    frame.get_by_text("Repair due: quarantine.").wait_for(timeout=30_000)
    installed.lakemark("audit", "shown", code=1)
    frame.locator("tr[data-table=quarantine] .state.findings").wait_for(timeout=30_000)
    frame.locator("h1 .state.findings").wait_for(timeout=20_000)

    # what the suite said
    assert "Suite named" in frame.locator("section[aria-label=Quality]").inner_text()

    # it goes on by itself
    page.evaluate("document.documentElement.classList.replace('light', 'dark')")
    frame.locator(":root[data-theme=dark]").wait_for(state="attached")
    installed.lakemark("run", "shown")
    frame.get_by_role("button", name="batch 4", exact=True).wait_for(timeout=20_000)
    frame.get_by_text("Repair due: quarantine.").wait_for(state="detached", timeout=30_000)


def test_a_figure_that_is_not_from_now_says_how_old_it_is(shown: Pipeline, browser: Browser) -> None:
    frame = browser.open("shown")
    lag = frame.locator("dl.figures div", has_text="Lag")
    assert re.search(r"\d s ago", lag.inner_text())
    assert frame.locator("dl.figures .old").count() == 0
    browser.page.route("**/lakemark/api/**", lambda route: route.abort())  # as if the API server had gone
    frame.locator("#trouble", has_text="does not answer").wait_for(timeout=20_000)
    for source in ("kafka", "ledger", "quarantine"):
        frame.locator(f'dl.figures [data-figure="{source}"].old').first.wait_for(timeout=30_000)
    assert re.search(r"1\d s ago|2\d s ago", lag.inner_text())
    browser.page.unroute("**/lakemark/api/**")
    frame.locator("dl.figures:not(:has(.old))").wait_for(timeout=30_000)


def test_tiles_and_list_are_from_one_snapshot(installed: Installed, browser: Browser) -> None:
    made(installed, "steady", *(changes(range(5), n) for n in range(2)))
    frame = browser.open("steady")
    frame.get_by_role("button", name="batch 1", exact=True).wait_for(timeout=30_000)
    world = installed.world
    world.produce(world.load("steady").source.topics[0], [c for n in range(2, 10) for c in changes(range(5), n)])
    both = """() => {
        const tiles = [...document.querySelectorAll("dl.figures div")];
        const batches = tiles.find((tile) => tile.textContent.startsWith("Batches"));
        const rows = [...document.querySelectorAll("table.batches [data-row]")];
        return [batches.querySelector("dd").textContent, rows.filter((row) => row.querySelector(".committed")).length];
    }"""
    pipeline, seen = world.load("steady"), set()

    def has_seen_all() -> bool:
        seen.add(tuple(browser.page.frames[-1].evaluate(both)))
        return not run.is_alive() and str(len(world.coordinator(pipeline).ledger.state().batches)) in dict(seen)

    run = threading.Thread(target=installed.lakemark, args=("run", "steady"))
    run.start()
    wait_until(has_seen_all, 120)
    assert [(tile, rows) for tile, rows in seen if tile != str(rows)] == []
    assert len(seen) > 1


def test_half_a_batch_in_quarantine_is_not_ok_and_is_counted_by_record(installed: Installed, browser: Browser) -> None:
    made(installed, "half", changes(range(20), 1), [*changes(range(10), 2), *[b"no json"] * 10])
    installed.lakemark("audit", "half")
    frame = browser.open("half")
    frame.locator("h1 .state.quarantine").wait_for(timeout=30_000)
    assert "batch 1 set 10 of its 20 records aside" in frame.locator("#main").inner_text()
    installed.dag(installed.world.load("half"))
    installed.lakemark("reset", "half", "--from", "earliest", "--reason", "to read them again")
    installed.lakemark("run", "half", "--until-caught-up")

    def tile(name: str) -> str:
        return str(frame.locator("dl.figures div", has_text=name).first.inner_text())

    wait_until(lambda: "30 stale, 10 quarantined" in tile("Records of generation 2"), 30)
    wait_until(lambda: "10 records wait" in tile("Quarantine") and "10 ever" in tile("Quarantine"), 30)
    assert "2" in tile("Batches of generation 2")
    generations = frame.locator("section[aria-label=Generations]").inner_text()
    assert re.search(r"generation 1\b.*40 read", generations, re.DOTALL)

    # discard, from the page: a preview first, a reason, and a line in the timeline
    dialog = browser.do("Discard …", "Preview")
    dialog.get_by_text("10 records at most").wait_for(timeout=20_000)
    dialog.get_by_label("Reason").fill("a test has made them")
    dialog.get_by_role("button", name="Discard", exact=True).click()
    run_id, state = browser.ran("lakemark__half__backfill")
    assert state == "success"
    note = installed.api.run_note("lakemark__half__backfill", run_id)
    assert note == "10 records of the quarantine were discarded"
    frame = browser.open("half")
    wait_until(lambda: "0 records wait" in tile("Quarantine") and "10 ever" in tile("Quarantine"), 30)
    line = frame.locator("table.timeline tr", has_text="discard").first
    line.wait_for(timeout=30_000)
    assert "a test has made them" in line.inner_text()
    assert "reset" in frame.locator("table.timeline").inner_text()
    frame.locator("h1 .state.quarantine").wait_for(state="detached", timeout=30_000)


def test_the_trends_of_a_pipeline(shown: Pipeline, browser: Browser) -> None:
    frame = browser.open("shown")
    trends = frame.locator("section[aria-label=Trends]")
    trends.get_by_role("img", name="Lag when a batch was planned: at most 102 records").wait_for(timeout=30_000)
    assert trends.get_by_role("img", name="Seconds per batch").locator("rect").count() >= 1
    assert trends.get_by_role("img", name="Quarantine rate").locator("rect").count() >= 1
    trends.get_by_role("button", name="7 d").click()
    trends.locator('button[aria-pressed="true"]', has_text="7 d").wait_for()


def test_offsets_are_chosen_on_the_strip_and_read_again(
    installed: Installed, shown: Pipeline, browser: Browser
) -> None:
    frame = browser.open("shown")
    strip = frame.locator("svg.choosable").first
    strip.wait_for(timeout=30_000)
    box = strip.bounding_box()
    mouse = browser.page.mouse
    mouse.move(box["x"] + 1, box["y"] + 8)
    mouse.down()
    mouse.move(box["x"] + box["width"] / 2, box["y"] + 8, steps=5)
    mouse.up()
    choice = frame.locator("p.choice")
    [text] = re.findall(r"t-\w+-0:\d+-\d+", choice.inner_text())
    dialog = browser.do("Backfill these offsets …", "Preview")
    assert dialog.get_by_label("Which").input_value() == text
    dialog.get_by_text(re.compile(r"\d+ records at most, in \d+ chunk")).wait_for(timeout=20_000)
    assert installed.world.coordinator(shown).ledger.state().backfills == {}
    dialog.get_by_label("Reason").fill("to see it")
    dialog.get_by_role("button", name="Start").click()
    _, state = browser.ran("lakemark__shown__backfill")
    assert state == "success"
    [record] = installed.world.coordinator(shown).ledger.state().backfills.values()
    assert next(iter(record.backfill.chunks[0])).as_argument().startswith(text.split(":")[0])
    assert record.backfill.reason == "to see it"


def test_a_preview_only_is_the_runs_answer(installed: Installed, shown: Pipeline, browser: Browser) -> None:
    dag_id = "lakemark__shown__backfill"
    run_id = installed.api.trigger(dag_id, what="batches", batches="2-2", only_preview=True)
    assert installed.ended(dag_id, run_id) == "success"
    note = installed.api.run_note(dag_id, run_id)
    assert (note or "").splitlines()[:2] == ["Only a preview:", (note or "").splitlines()[1]]
    assert "30 records at most, in 1 chunks" in (note or "")
    assert installed.api.xcom(dag_id, run_id, "preview", "preview")["records_max"] == 30


def test_controls_run_pause_audit_cancel_and_resume(installed: Installed, browser: Browser) -> None:
    pipeline = made(installed, "steered", changes(range(20), 1))
    installed.dag(pipeline)
    world, topic = installed.world, pipeline.source.topics[0]
    world.produce(topic, changes(range(3), 2))
    browser.open("steered")
    browser.do("Run now", "Start")
    assert browser.ran("lakemark__steered")[1] == "success"
    assert len(world.coordinator(pipeline).ledger.state().batches) == 2

    frame = browser.open("steered")
    frame.get_by_role("button", name="Audit …").click()
    frame.get_by_label("Deep").check()
    frame.get_by_role("dialog").get_by_role("button", name="Start").click()
    run_id, state = browser.ran("lakemark__steered__audit")
    assert state == "success"
    assert "no findings" in (installed.api.run_note("lakemark__steered__audit", run_id) or "")
    frame = browser.open("steered")
    frame.locator("tr[data-table=target] .state.proven").wait_for(timeout=30_000)

    browser.do("Pause", "Pause")
    frame.locator("h1 .state.paused").wait_for(timeout=30_000)
    assert frame.locator(".problem:visible").count() == 0  # a pause is no error
    browser.do("Unpause", "Unpause")
    frame.locator("h1 .state.ok").wait_for(timeout=30_000)


def test_a_backfill_is_resumed_or_cancelled_where_it_is_seen(installed: Installed, browser: Browser) -> None:
    pipeline = made(installed, "again", changes(range(20), 1))
    installed.dag(pipeline)
    dag_id = "lakemark__again__backfill"
    wait_until(lambda: installed.api.dag_exists(dag_id), 90)
    for button, verb in (("Resume …", "Resume"), ("Cancel …", "Cancel the backfill")):
        stopped_backfill(installed, dag_id)
        browser.open("again")
        browser.do(button, verb)
        assert browser.ran(dag_id)[1] == "success"
    backfills = installed.world.coordinator(pipeline).ledger.state().backfills.values()
    assert [record.outcome for record in backfills] == ["applied", "cancelled"]
    frame = browser.open("again")
    frame.locator("section[aria-label=Backfills]").get_by_text("cancelled").wait_for(timeout=30_000)


def stopped_backfill(installed: Installed, dag_id: str) -> None:
    """A backfill that was planned, and whose run somebody ended before its chunk could run."""
    session, pool = installed.api.session, f"{installed.api.url}/api/v2/pools/lakemark_spark"
    is_deferred = session.get(pool, timeout=30).json()["include_deferred"]

    def set_slots(slots: int) -> None:
        body = {"pool": "lakemark_spark", "slots": slots, "include_deferred": is_deferred}
        session.patch(pool, json=body, timeout=30).raise_for_status()

    set_slots(0)
    try:
        run_id = installed.api.trigger(dag_id, what="batches", batches="0-0")
        wait_until(lambda: installed.states(dag_id, run_id).get("chunk[0]") == "scheduled", 90)
        installed.api.fail_run(dag_id, run_id)
        assert installed.ended(dag_id, run_id) == "failed"
    finally:
        set_slots(2)


def test_a_look_at_the_data(installed: Installed, shown: Pipeline, browser: Browser) -> None:
    installed.lakemark("run", "shown")  # if no other test has
    frame = browser.open("shown")
    data = frame.locator("section[aria-label=Data]")
    data.get_by_text(re.compile(r"\d+ columns, version")).click()
    assert "bigint" in data.locator("table").first.inner_text().lower() or "long" in data.inner_text()
    data.get_by_text(re.compile(r"20 rows, version")).click()
    assert re.search(r"batch \d|backfill \d, chunk 0", data.locator("table.rows").first.inner_text())

    frame.get_by_role("button", name="batch 4", exact=True).click()
    frame.get_by_role("button", name="What it changed").click()
    compared = frame.locator("#compared")
    compared.get_by_text("0 rows inserted, 5 updated, 0 deleted").wait_for(timeout=30_000)
    assert compared.locator("td.changed del").count() >= 5
    compared.get_by_label("Version before").fill("0")
    compared.get_by_role("button", name="Compare").click()
    compared.get_by_text("100 rows inserted, 0 updated, 0 deleted. 20 examples").wait_for(timeout=30_000)

    lineage = frame.locator("svg.lineage")
    assert shown.source.topics[0][:20] in lineage.text_content()
    assert "lake://silver/shown" in lineage.text_content()


def test_a_narrow_window_has_no_bar_to_scroll_sideways(shown: Pipeline, browser: Browser) -> None:
    browser.page.set_viewport_size({"width": 1024, "height": 768})
    try:
        for view in ("", "shown"):
            frame = browser.open(view)
            frame.locator("table").first.wait_for(timeout=30_000)
            too_wide = browser.page.frames[-1].evaluate(
                "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert too_wide <= 0, view
            texts = frame.locator("#main").inner_text()
            assert "-1" not in re.findall(r"batch (-?\d+)", texts)
            assert re.findall(r"\d{1,2}/\d{1,2}/\d{4}", texts) == []
    finally:
        browser.page.set_viewport_size({"width": 1400, "height": 1000})


def test_no_such_pipeline(browser: Browser) -> None:
    browser.page.goto(f"{browser.installed.stack.airflow.url}/plugin/lakemark#/none_such")
    browser.page.reload()
    browser.frame.get_by_role("heading", name="No such pipeline").wait_for(timeout=30_000)
    browser.frame.get_by_role("link", name="All pipelines").click()
    browser.frame.get_by_role("heading", name="Pipelines").wait_for(timeout=30_000)


def test_the_note_of_an_attempt_that_is_over_goes(installed: Installed) -> None:
    world, api, name = installed.world, installed.api, "gone_wrong"
    pipeline = world.pipeline("t-comes-later", name)
    dag_id = installed.dag(pipeline)
    run_id, state = installed.run(dag_id)
    assert state == "failed"
    assert "a topic does not exist" in (api.run_note(dag_id, run_id) or "")
    world.create_topic("t-comes-later", 2)
    world.produce("t-comes-later", changes(range(3), 1))
    api.clear(dag_id, run_id, "plan")
    assert installed.ended(dag_id, run_id) == "success"
    assert api.run_note(dag_id, run_id) is None

    # a person's note stays
    note = {"note": "seen by ada"}
    answer = api.session.patch(f"{api.url}/api/v2/dags/{dag_id}/dagRuns/{run_id}", json=note, timeout=30)
    answer.raise_for_status()
    api.clear(dag_id, run_id, "settle")
    assert installed.ended(dag_id, run_id) == "success"
    assert api.run_note(dag_id, run_id) == "seen by ada"
