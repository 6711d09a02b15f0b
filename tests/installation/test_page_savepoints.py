"""Savepoints on the Lakemark page and in Airflow: a real Chromium within a real Airflow, its scheduler, real tables."""

from __future__ import annotations

import re

import pytest

from include.savepoints.checking import seen
from tests.support.installed import Installed
from tests.support.page_browser import Browser, made
from tests.support.waiting import wait_until
from tests.support.world import as_dict, changes


@pytest.mark.slow
def test_a_savepoint_is_made_rehearsed_and_gone_back_to(installed: Installed, browser: Browser) -> None:
    pipeline = made(installed, "kept_by_name", changes(range(20), 1), changes(range(10), 2))
    installed.dag(pipeline)
    world, dag_id = installed.world, "lakemark__kept_by_name__savepoint"
    wait_until(lambda: installed.api.dag_exists(dag_id), 90)
    before = as_dict(world.rows(pipeline))
    frame = browser.open("kept_by_name")
    frame.get_by_text("There is no savepoint yet").wait_for(timeout=30_000)

    dialog = browser.do("Savepoint …", "", Name="before")
    dialog.get_by_label("Copy").check()
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("before: a copy of generation 1 batch 1").wait_for(timeout=20_000)
    dialog.get_by_role("button", name="Create").click()
    run_id, state = browser.ran(dag_id)
    assert state == "success"
    installed.api.clear(dag_id, run_id, "act")
    assert installed.ended(dag_id, run_id) == "success", "it is made once"
    [one] = seen(world.settings, pipeline)
    assert (one.on_shelf.name, one.lost, one.on_shelf.begun.is_copy) == ("before", None, True)

    world.produce(pipeline.source.topics[0], changes(range(20), 3))
    installed.lakemark("run", "kept_by_name")
    frame = browser.open("kept_by_name")
    row = frame.locator("tr[data-savepoint=before]")
    row.get_by_role("button", name="Go back …").click()
    dialog = frame.get_by_role("dialog")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text(re.compile(r"batches that are undone: 1 \(1/2 to 1/2\)")).wait_for(timeout=20_000)
    dialog.get_by_label("Type kept_by_name to confirm").fill("kept_by_name")
    dialog.get_by_label("Reason").fill("a wrong transform")
    dialog.get_by_role("button", name="Go back", exact=True).click()
    run_id, state = browser.ran(dag_id)
    assert state == "success"
    assert as_dict(world.rows(pipeline)) == before
    installed.api.clear(dag_id, run_id, "act")
    assert installed.ended(dag_id, run_id) == "success"
    [started] = world.coordinator(pipeline).ledger.state().generations
    assert (started.generation, started.origin, started.reason) == (2, "savepoint before 1/1", "a wrong transform")

    run_id = installed.api.trigger(dag_id, what="rehearse a restore", savepoint="before")
    assert installed.ended(dag_id, run_id) == "success"
    assert "would be restored as it was" in wait_until(lambda: installed.api.run_note(dag_id, run_id))
    frame = browser.open("kept_by_name")
    frame.locator("tr[data-savepoint=before]", has_text="good").wait_for(timeout=30_000)
    frame.get_by_text("The newest 3 checkpoints").click()
    frame.locator("tr[data-checkpoint='1/2'] .state.whole").wait_for(timeout=30_000)
    frame.locator("tr[data-savepoint=before]").get_by_role("button", name="Drop …").click()
    frame.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    assert browser.ran(dag_id)[1] == "success"
    assert seen(world.settings, pipeline) == []
