"""What people do on the Lakemark page, in a real Chromium within a real Airflow, and what runs answer to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from include.pipeline_file import Pipeline
from tests.support.installed import Installed
from tests.support.page_browser import Browser, made
from tests.support.waiting import wait_until
from tests.support.world import changes


@pytest.mark.slow
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
    installed.api.clear("lakemark__half__backfill", run_id, "discard")  # none is discarded twice, and the answer stays
    assert installed.ended("lakemark__half__backfill", run_id) == "success"
    assert installed.api.run_note("lakemark__half__backfill", run_id) == note
    frame = browser.open("half")
    wait_until(lambda: "0 records wait" in tile("Quarantine") and "10 ever" in tile("Quarantine"), 30)
    line = frame.locator("table.timeline tr", has_text="discard").first
    line.wait_for(timeout=30_000)
    assert "a test has made them" in line.inner_text()
    assert "reset" in frame.locator("table.timeline").inner_text()
    frame.locator("h1 .state.quarantine").wait_for(state="detached", timeout=30_000)


def test_offsets_are_chosen_on_the_strip_and_read_again(
    installed: Installed, shown: Pipeline, browser: Browser
) -> None:
    frame = browser.open("shown")
    browser.draw_over(frame.locator("svg.choosable").first, 0.5)
    [text] = re.findall(r"t-\w+-0:\d+-\d+", frame.locator("p.choice").inner_text())
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


def test_a_time_span_is_written_as_iso_8601(shown: Pipeline, browser: Browser) -> None:
    browser.open("shown")
    dialog = browser.do("Backfill …", "")
    dialog.locator("select[name=kind]").select_option("span")
    dialog.locator("input[name=since]").fill("2020-13-45 08:00")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("2020-13-45 08:00 is no time").wait_for(timeout=20_000)
    dialog.locator("input[name=since]").fill("2020-01-01")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text(re.compile(r"1\d\d records at most")).wait_for(timeout=20_000)
    dialog.get_by_role("button", name="Cancel").click()


def test_dialogs_ask_what_sinks_get(installed: Installed, browser: Browser, tmp_path: Path) -> None:
    made(installed, "given", changes(range(5), 1), sinks={"out": {"files": {"path": str(tmp_path / "out")}}})
    browser.open("given")
    dialog = browser.do("Backfill …", "")
    dialog.get_by_label("Which").fill("0-0")
    dialog.locator("select[name=sinks]").select_option("nothing")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("sink out: keeps what it has").wait_for(timeout=20_000)
    with browser.page.expect_request("**/dagRuns") as sent:
        dialog.get_by_role("button", name="Start").click()
    assert sent.value.post_data_json["conf"]["sinks"] == "nothing"
    browser.open("shown")  # it has no sinks
    assert browser.do("Reset …", "").locator("select[name=sinks]").count() == 0


def test_a_preview_only_is_the_runs_answer(installed: Installed, shown: Pipeline, browser: Browser) -> None:
    dag_id = "lakemark__shown__backfill"
    run_id = installed.api.trigger(dag_id, what="batches", batches="2-2", only_preview=True)
    assert installed.ended(dag_id, run_id) == "success"
    note = installed.api.run_note(dag_id, run_id)
    assert (note or "").splitlines()[:2] == ["Only a preview:", (note or "").splitlines()[1]]
    assert "30 records at most, in 1 chunk, " in (note or "")
    assert installed.api.xcom(dag_id, run_id, "preview", "preview")["records_max"] == 30


@pytest.mark.slow
def test_controls_run_pause_and_audit(installed: Installed, browser: Browser) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
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
