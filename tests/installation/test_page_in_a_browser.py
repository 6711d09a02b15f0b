"""The Lakemark page in a real Chromium, within a real Airflow: what people see, and how old it is."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest

from include.pipeline_file import Pipeline
from tests.support.batches import batch
from tests.support.hand_made import stray
from tests.support.installed import Installed
from tests.support.page_browser import Browser, made
from tests.support.waiting import wait_until
from tests.support.world import changes


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

    # legends name only what occurs (another test may have read offsets again)
    told = frame.locator("section[aria-label=Offsets] .legend").inner_text().split()
    assert {"committed", "waiting"} <= {*told} <= {"committed", "waiting", "backfilled"}
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
    present = frame.locator("dl.figures:not(:has(.old))")
    present.filter(has_text="Lag").wait_for(timeout=30_000)  # a busy machine may show older figures first
    lag = frame.locator("dl.figures div", has_text="Lag")
    assert re.search(r"\d s ago", lag.inner_text())
    browser.page.route("**/lakemark/api/**", lambda route: route.abort())  # as if the API server had gone
    frame.locator("#trouble", has_text="does not answer").wait_for(timeout=20_000)
    for source in ("kafka", "ledger", "quarantine"):
        frame.locator(f'dl.figures [data-figure="{source}"].old').first.wait_for(timeout=30_000)
    assert re.search(r"[1-9]\d s ago|min ago", lag.inner_text())
    browser.page.unroute("**/lakemark/api/**")
    present.wait_for(timeout=30_000)


@pytest.mark.slow
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


def test_the_trends_of_a_pipeline(shown: Pipeline, browser: Browser) -> None:
    frame = browser.open("shown")
    trends = frame.locator("section[aria-label=Trends]")
    trends.get_by_role("img", name="Lag when a batch was planned: at most 102 records").wait_for(timeout=30_000)
    assert trends.get_by_role("img", name="Seconds per batch").locator("rect").count() >= 1
    assert trends.get_by_role("img", name="Quarantine rate").locator("rect").count() >= 1
    trends.get_by_role("button", name="7 d").click()
    trends.locator('button[aria-pressed="true"]', has_text="7 d").wait_for()


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
