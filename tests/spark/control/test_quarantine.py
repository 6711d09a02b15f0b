"""The quarantine as a workflow: look, mend, replay, discard; the table is right whatever comes in between."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from tests.spark.changes.test_quality import CHEAP, NAMED, send, with_suite
from tests.support.advice import follow
from tests.support.world import World, as_dict, read_table


def reasons(world: World, pipeline: Pipeline) -> dict[str, dict[str, int]]:
    """What `quarantine list` says, by reason, without what is 0."""
    found = json.loads(quarantine(world, "list", pipeline.name, "--json"))
    return {row.pop("reason"): {name: n for name, n in row.items() if n} for row in found}


def quarantine(world: World, *words: str, code: int = 0) -> Any:
    done = world.lakemark("quarantine", *words)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def prices(world: World, pipeline: Pipeline) -> dict[int, float | None]:
    return {key: row["price"] for key, row in as_dict(world.rows(pipeline)).items()}


NULL, PRICE = "breaks column_values_to_not_be_null(name)", "breaks column_values_to_be_between(price)"


@pytest.mark.slow
def test_i9_replayed_records_are_merged_once_and_never_over_newer_rows(world: World) -> None:
    pipeline = with_suite(world, NAMED, CHEAP, quarantine_max_percent=80)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2, "price": 600}, {"id": 3, "name": None}, {"id": 4})
    world.run_batch(pipeline)
    send(world, pipeline, {"id": 2, "seq": 2, "price": 2})  # newer than what waits
    world.run_batch(pipeline)
    assert prices(world, pipeline) == {2: 2, 4: 1}
    assert reasons(world, pipeline) == {NULL: {"pending": 1}, PRICE: {"pending": 2}}
    shown = json.loads(quarantine(world, "show", pipeline.name, "--json", "--rule", PRICE.removeprefix("breaks ")))
    assert [(row["offset"], json.loads(row["value"])["price"]) for row in shown] == [(0, 500), (1, 600)]

    status = world.lakemark("status", pipeline.name).stdout
    assert "3 records wait in the quarantine" in status
    assert "suite shop: passed" in status

    # Nothing was mended: what is read again is set aside again, and waits on.
    quarantine(world, "replay", pipeline.name)
    assert reasons(world, pipeline) == {NULL: {"pending": 1}, PRICE: {"pending": 2}}
    assert prices(world, pipeline) == {2: 2, 4: 1}

    with_suite(world, NAMED, again=pipeline)
    assert "3 records at most" in quarantine(world, "replay", pipeline.name, "--dry-run")
    quarantine(world, "replay", pipeline.name, "--reason", "prices may be high", "--records-per-chunk", "2")
    assert prices(world, pipeline) == {1: 500, 2: 2, 4: 1}
    assert reasons(world, pipeline) == {NULL: {"pending": 1}, PRICE: {"replayed": 2}}

    # Once: what was replayed is not replayed again.
    assert "1 records at most" in quarantine(world, "replay", pipeline.name, "--dry-run")
    quarantine(world, "discard", pipeline.name, "--reason", "a test order")
    assert reasons(world, pipeline) == {NULL: {"discarded": 1}, PRICE: {"replayed": 2}}
    assert "nothing in the quarantine can be replayed" in quarantine(world, "replay", pipeline.name, code=1)

    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed is not None and report.recomputed.rows_equal == 3


@pytest.mark.slow
def test_what_a_backfill_finds_good_waits_no_longer(world: World) -> None:
    pipeline = with_suite(world, NAMED, CHEAP)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2, "name": None})
    world.run_batch(pipeline)
    with_suite(world, NAMED, again=pipeline)
    assert world.lakemark("backfill", pipeline.name, "--batches", "0").returncode == 0
    assert prices(world, pipeline) == {1: 500}
    assert reasons(world, pipeline) == {NULL: {"pending": 1}, PRICE: {"applied": 1}}
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()


@pytest.mark.slow
def test_what_waits_does_so_still_when_the_ledger_was_made_anew_twice(world: World) -> None:
    """The second new ledger knows only the generation that the first one began, in which nothing had landed."""
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2})
    world.run_batch(pipeline)
    for _ in range(2):
        shutil.rmtree(world.on_disk(world.coordinator(pipeline).ledger.uri))
        assert world.lakemark("ledger", "rebuild", pipeline.name).returncode == 0
    assert reasons(world, pipeline) == {PRICE: {"pending": 1}}
    assert audit(world.settings, pipeline, deep=True).findings == ()
    with_suite(world, NAMED, again=pipeline)
    quarantine(world, "replay", pipeline.name)
    assert prices(world, pipeline) == {1: 500, 2: 1}
    assert reasons(world, pipeline) == {PRICE: {"replayed": 1}}


@pytest.mark.slow
def test_i5_a_cancelled_replay_leaves_what_it_has_applied_and_the_rest_waits(world: World) -> None:
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2, "price": 600})
    world.run_batch(pipeline)
    with_suite(world, NAMED, again=pipeline)
    killed = world.lakemark(
        *("quarantine", "replay", pipeline.name, "--records-per-chunk", "1"),
        LAKEMARK_TEST_FAULT="attempt.before_merge=kill@2",
    )
    assert killed.returncode != 0
    assert prices(world, pipeline) == {1: 500}
    assert reasons(world, pipeline) == {PRICE: {"pending": 1, "replayed": 1}}
    assert world.lakemark("backfill", pipeline.name, "--cancel", "1").returncode == 0
    assert reasons(world, pipeline) == {PRICE: {"pending": 1, "replayed": 1}}
    quarantine(world, "replay", pipeline.name)
    assert prices(world, pipeline) == {1: 500, 2: 600}
    assert reasons(world, pipeline) == {PRICE: {"replayed": 2}}
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i3_a_history_that_the_file_left_out_while_a_replay_landed_is_filled(world: World) -> None:
    """No batch has landed meanwhile, so no position tells. The test does what the error says."""
    target = {"history_table": "lake://silver/left_out_by_a_replay"}
    pipeline = with_suite(world, CHEAP, quarantine_max_percent=80, target=target)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2})
    world.run_batch(pipeline)
    with_suite(world, NAMED, again=pipeline)
    quarantine(world, "replay", pipeline.name)
    pipeline = with_suite(world, NAMED, again=pipeline, target=target)
    assert {finding.table for finding in audit(world.settings, pipeline).findings} == {"history"}
    assert [error["error"] for error in follow(world, pipeline)] == ["TargetBehindLedger"]
    history = world.table(pipeline, "history")
    assert history is not None
    assert {row["id"] for row in read_table(history)} == {1, 2}
    assert audit(world.settings, pipeline, deep=True).findings == ()
