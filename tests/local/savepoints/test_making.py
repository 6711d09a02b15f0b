"""A savepoint holds a checkpoint until it is dropped, and proves what it is. Real Delta files, no Spark."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.checkpoints.reading import Cut, query_at
from include.checkpoints.retention import kept_in
from include.checkpoints.shelf import drop, pins_of, taken
from include.protocol.errors import TerminalError
from include.savepoints.checking import checked, seen
from tests.support.readers import by_deltalake
from tests.support.saved import place, saved, vacuumed, went_back
from tests.support.six_batches import BATCHES, cut_the_log, made, rows
from tests.support.stopped import end, resumed, stopped

OLD = timedelta(days=16)


@pytest.mark.parametrize("is_copy", [False, True])
def test_any_reader_reads_a_savepoint_as_the_table_was(tmp_path: Path, is_copy: bool) -> None:
    coordinator = made(tmp_path)
    was = by_deltalake(str(coordinator.tables.target))
    found = saved(coordinator, is_copy=is_copy)
    assert (found.begun.checkpoint.name, found.tables["target"].rows) == (f"1/{BATCHES - 1}", len(was))
    assert sorted(map(repr, by_deltalake(str(place(coordinator) / "tables/target")))) == sorted(map(repr, was))
    own = {file.name for file in (place(coordinator) / "tables/target").iterdir()}
    assert (own == {"_delta_log"}) is not is_copy
    assert (place(coordinator) / "pipeline/p.yaml").read_text() == "name: p\n"
    assert [(one.on_shelf.name, one.lost) for one in seen(coordinator.settings, coordinator.pipeline)] == [("s", None)]
    report = checked(coordinator.settings, coordinator.pipeline, "s", is_deep=True)
    assert (report.problems, report.files) == ([], found.tables["target"].files)


def test_a_pin_holds_what_it_needs_and_no_more(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    assert kept_in(coordinator.settings, coordinator.pipeline) == {}
    saved(coordinator, at="2")
    kept = kept_in(coordinator.settings, coordinator.pipeline)["target"]
    needs = Cut.at(coordinator.settings, coordinator.pipeline, "batch:2").versions
    assert (kept.versions, needs) == (1, {"target": 3})
    assert len(kept.older) > 0
    drop(coordinator.settings, coordinator.pipeline, "s")
    assert kept_in(coordinator.settings, coordinator.pipeline) == {}
    saved(coordinator, "copy", at="2", is_copy=True)
    assert kept_in(coordinator.settings, coordinator.pipeline) == {}, "it has its own files"


def test_one_that_was_begun_takes_nothing_from_a_whole_one(tmp_path: Path) -> None:
    coordinator = made(tmp_path, age=OLD)
    saved(coordinator, "whole", at="3")
    needs = kept_in(coordinator.settings, coordinator.pipeline)["target"]
    killed(tmp_path, "pin", "savepoint.begun")
    cut_the_log(coordinator)
    kept = kept_in(coordinator.settings, coordinator.pipeline)["target"]
    assert (kept.names, kept.versions) == (needs.names, 1)


def test_a_pin_whose_log_is_gone_holds_what_its_list_names(tmp_path: Path) -> None:
    coordinator = made(tmp_path, age=OLD)
    saved(coordinator, at="1")
    needs = kept_in(coordinator.settings, coordinator.pipeline)["target"]
    cut_the_log(coordinator)
    shutil.rmtree(place(coordinator) / "tables")
    assert kept_in(coordinator.settings, coordinator.pipeline)["target"].names == needs.names
    (place(coordinator) / "manifest.json").write_text("{")
    assert kept_in(coordinator.settings, coordinator.pipeline)["target"].names == needs.names


def test_without_its_list_nobody_removes_a_file(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator)
    (place(coordinator) / "files/target.json").unlink()
    with pytest.raises(TerminalError, match="nobody can read which files") as raised:
        kept_in(coordinator.settings, coordinator.pipeline)
    assert "savepoint drop p s" in raised.value.action
    drop(coordinator.settings, coordinator.pipeline, "s")
    assert kept_in(coordinator.settings, coordinator.pipeline) == {}


@pytest.mark.parametrize("is_copy", [False, True])
def test_log_clean_up_does_not_end_a_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copy: bool) -> None:
    coordinator = made(tmp_path, age=OLD)
    saved(coordinator, at="1", is_copy=is_copy)
    at_its_end = query_at([Cut.at(coordinator.settings, coordinator.pipeline, "batch:1")], "SELECT id, seq FROM target")
    cut_the_log(coordinator)
    assert kept_in(coordinator.settings, coordinator.pipeline).keys() == (set() if is_copy else {"target"})
    by_savepoint = Cut.at(coordinator.settings, coordinator.pipeline, "savepoint:s")
    found = query_at([by_savepoint], "SELECT id, seq FROM target ORDER BY id")
    assert found.sort_by("id").equals(at_its_end.sort_by("id"))
    went_back(coordinator, monkeypatch)
    assert [row for row in rows(coordinator) if row[0] != 39] == [*zip(*found.to_pydict().values(), strict=True)]
    state = coordinator.ledger.state()
    assert state.generations[-1].origin == "savepoint s 1/1"
    assert Cut.at(coordinator.settings, coordinator.pipeline, None).checkpoint.name == "1/1"


def test_names(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, "before-1.2_x")
    with pytest.raises(TerminalError, match="there is a savepoint of this name"):
        saved(coordinator, "before-1.2_x")
    for name in ("", "../x", "a b", ".x", "a/b", "x" * 64):
        with pytest.raises(TerminalError, match="no name for a savepoint"):
            saved(coordinator, name)
    with pytest.raises(TerminalError, match="no such savepoint") as raised:
        taken(coordinator.settings, coordinator.pipeline, "before")
    assert raised.value.expected == "one of: before-1.2_x"
    with pytest.raises(TerminalError, match="no such savepoint"):
        drop(coordinator.settings, coordinator.pipeline, "other")


def test_what_is_broken_begins_nothing(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    vacuumed(coordinator)
    with pytest.raises(TerminalError, match="no longer there"):
        saved(coordinator, at="0")
    assert not place(coordinator).exists()


def test_another_table_in_the_place_is_not_saved_for_the_old_one(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    target = coordinator.tables.target
    shutil.rmtree(str(target))
    DeltaTable.create(str(target), DeltaTable(str(made(tmp_path / "other").tables.target)).schema())
    with pytest.raises(TerminalError, match="no longer there"):
        saved(coordinator, at="2")


MAKE = """
import sys
from pathlib import Path
from include.savepoints.making import Making
from include.checkpoints.shelf import drop
from tests.support.tables_before import with_tables
coordinator = with_tables(Path(sys.argv[1]))
if sys.argv[2] == "drop":
    drop(coordinator.settings, coordinator.pipeline, "s")
else:
    Making(coordinator.settings, coordinator.pipeline, "s", is_copy=sys.argv[2] == "copy", at="3").make()
"""


def killed(folder: Path, what: str, point: str) -> None:
    env = {**os.environ, "LAKEMARK_TEST_FAULT": f"{point}=kill"}
    done = subprocess.run([sys.executable, "-c", MAKE, str(folder), what], env=env, check=False, timeout=120)
    assert done.returncode == -9, point


@pytest.mark.parametrize("what", ["pin", "copy"])
@pytest.mark.parametrize("point", ["savepoint.begun", "savepoint.table_saved", "savepoint.published"])
def test_one_that_was_killed_is_ended_by_the_same_command(tmp_path: Path, what: str, point: str) -> None:
    coordinator = made(tmp_path)
    killed(tmp_path, what, point)
    [begun] = seen(coordinator.settings, coordinator.pipeline)
    is_published = point == "savepoint.published"
    assert begun.lost == (None if is_published else "it was begun and not ended")
    if is_published:
        with pytest.raises(TerminalError, match="there is a savepoint of this name"):
            saved(coordinator, at="3", is_copy=what == "copy")
    else:
        assert pins_of(coordinator.settings, coordinator.pipeline) != [], "until then it holds what it needs"
        with pytest.raises(TerminalError, match="begun and not ended") as raised:
            taken(coordinator.settings, coordinator.pipeline, "s")
        assert ("--copy" in raised.value.action) is (what == "copy")
        with pytest.raises(TerminalError, match="another savepoint of this name was begun"):
            saved(coordinator, at="2", is_copy=what == "copy")
        found = saved(coordinator, is_copy=what == "copy")
        assert found.begun.checkpoint.name == "1/3", "what was decided stays"
    assert checked(coordinator.settings, coordinator.pipeline, "s", is_deep=True).problems == []


def test_who_comes_second_changes_nothing_of_a_whole_one(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    file = coordinator.settings.pipelines / "p.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("name: p\n")
    env = {**os.environ, "LAKEMARK_TEST_FAULT": "savepoint.table_saved=stop"}
    first = subprocess.Popen([sys.executable, "-c", MAKE, str(tmp_path), "pin"], env=env, stderr=subprocess.DEVNULL)
    try:
        asleep = stopped(first)
        with pytest.raises(TerminalError, match="another savepoint of this name was begun"):
            saved(coordinator, at="3", is_deep=True)
        saved(coordinator, at="3")
        file.write_text("name: p  # changed since\n")
        assert resumed(first, asleep)[0] == 1, "the name is taken"
    finally:
        end(first)
    assert checked(coordinator.settings, coordinator.pipeline, "s", is_deep=True).problems == []


def test_one_that_was_half_dropped_is_dropped_by_the_same_command(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, is_copy=True)
    killed(tmp_path, "drop", "savepoint.manifest_removed")
    [half] = seen(coordinator.settings, coordinator.pipeline)
    assert half.lost == "it was begun and not ended"
    drop(coordinator.settings, coordinator.pipeline, "s")
    assert seen(coordinator.settings, coordinator.pipeline) == []
    assert not place(coordinator).exists()


def test_a_copy_across_file_systems_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount cannot be made here, so a stand-in refuses the link as another file system does."""
    coordinator = made(tmp_path)

    def no_links(old: object, new: object) -> None:
        if str(old).endswith((".parquet", ".bin")):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(old, new)  # type: ignore[arg-type]

    real = os.link
    monkeypatch.setattr(os, "link", no_links)
    saved(coordinator, is_copy=True)
    for file in place(coordinator).glob("tables/target/*.*"):
        assert file.stat().st_ino != (Path(str(coordinator.tables.target)) / file.name).stat().st_ino
    assert checked(coordinator.settings, coordinator.pipeline, "s", is_deep=True).problems == []
