"""VACUUM waits while a batch may have to make a table anew from an earlier version."""

from __future__ import annotations

import shutil
from pathlib import Path

from deltalake import DeltaTable

from include.control import older_files
from include.control.coordinator import Coordinator
from include.lake.delta_tables import commit_markers, open_table
from include.protocol.batch import FENCE, app_id
from tests.support.batches import batch
from tests.support.tables_before import folder_before, land_before, uri_before, with_one_batch


def are_needed(coordinator: Coordinator) -> bool:
    return older_files.are_needed(coordinator.settings, coordinator.pipeline, "history")


def test_nobody_needs_them_while_all_tables_stand_where_the_last_batch_has_left_them(tmp_path: Path) -> None:
    assert not are_needed(with_one_batch(tmp_path))


def test_a_batch_that_may_never_reach_the_point_needs_them(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    land_before(folder_before(coordinator, "history"), 2, batch(1))
    assert are_needed(coordinator)


def test_a_table_that_was_rolled_back_or_lost_needs_them(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    history = folder_before(coordinator, "history")
    DeltaTable(history).restore(0)
    assert are_needed(coordinator)
    shutil.rmtree(history)
    assert are_needed(coordinator)


def test_a_generation_whose_end_was_interrupted_needs_them(tmp_path: Path) -> None:
    coordinator = with_one_batch(tmp_path)
    table = open_table(uri_before(coordinator, "history"))
    assert table is not None
    assert commit_markers(table, {app_id("p", 1): FENCE}, "{}")
    assert are_needed(coordinator)
