"""A savepoint proves what it is. Real Delta files, no Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.checkpoints.retention import kept_in
from include.checkpoints.shelf import drop, pins_of, taken
from include.protocol.errors import TerminalError
from include.savepoints.checking import checked, seen
from include.savepoints.restoring import restoring
from tests.support.readers import by_deltalake
from tests.support.saved import place, saved, vacuumed, went_back
from tests.support.six_batches import IN_KAFKA, made, rows
from tests.support.tables_before import ask


def harm_size(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def harm_end(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)


def own_copy(file: Path) -> None:
    """No link: what is written into it harms nothing else."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [Path.unlink, harm_size, harm_end])
@pytest.mark.parametrize("of", ["tables/target/*.parquet", "tables/target/_delta_log/*.json", "files/target.json"])
def test_whatever_harms_a_file_is_found(tmp_path: Path, harm: Callable[[Path], None], of: str) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, is_copy=True)
    file = min(place(coordinator).glob(of))
    own_copy(file)
    harm(file)
    report = checked(coordinator.settings, coordinator.pipeline, "s", is_deep=False)
    assert len(report.problems) == 1, report.problems


def test_a_lost_bit_is_found_by_those_who_read_all(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, is_copy=True, is_deep=True)
    file = max(place(coordinator).glob("tables/target/*.parquet"), key=lambda file: file.stat().st_size)
    own_copy(file)
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    report = checked(coordinator.settings, coordinator.pipeline, "s", is_deep=True)
    assert report.problems == [f"target: {file.name}: another content than was written"]


def test_a_manifest_that_somebody_has_edited_is_none(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator)
    manifest = place(coordinator) / "manifest.json"
    manifest.write_text(manifest.read_text().replace("a test", "another"))
    with pytest.raises(TerminalError, match="relied on") as raised:
        taken(coordinator.settings, coordinator.pipeline, "s")
    assert "digest" in raised.value.found
    [one] = seen(coordinator.settings, coordinator.pipeline)
    assert one.lost is not None
    assert kept_in(coordinator.settings, coordinator.pipeline)["target"].versions == 1, "what it needs is known"
    (place(coordinator) / "begun.json").write_text("{")
    with pytest.raises(TerminalError, match="nobody can read which files"):
        pins_of(coordinator.settings, coordinator.pipeline)
    drop(coordinator.settings, coordinator.pipeline, "s")
    assert pins_of(coordinator.settings, coordinator.pipeline) == []


def test_one_of_a_newer_lakemark_is_refused(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator)
    manifest = place(coordinator) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "form": 2}))
    with pytest.raises(TerminalError, match="relied on") as raised:
        taken(coordinator.settings, coordinator.pipeline, "s")
    assert "newer Lakemark" in raised.value.found


def test_where_the_folder_lies_is_no_part_of_it(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, is_copy=True)
    was = by_deltalake(str(place(coordinator) / "tables/target"))
    elsewhere = shutil.copytree(place(coordinator), tmp_path / "elsewhere")
    shutil.rmtree(str(coordinator.settings.lake))
    assert by_deltalake(str(elsewhere / "tables/target")) == was


def test_a_copy_outlives_a_vacuum_by_hand_and_a_pin_says_what_it_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, "copy", at="2", is_copy=True)
    saved(coordinator, "pin", at="2")
    was = by_deltalake(str(place(coordinator, "copy") / "tables/target"))
    vacuumed(coordinator)
    now = {one.on_shelf.name: one.lost for one in seen(coordinator.settings, coordinator.pipeline)}
    assert now["copy"] is None
    assert str(now["pin"]).startswith("target: ")
    report = checked(coordinator.settings, coordinator.pipeline, "pin", is_deep=False)
    assert [text.rpartition(": ")[2] for text in report.problems] == ["it is gone"] * len(report.problems) != []
    with pytest.raises(TerminalError, match="no longer there"):
        went_back(coordinator, monkeypatch, "pin")
    assert coordinator.ledger.state().generation == 1
    ask(monkeypatch, IN_KAFKA)
    back = restoring(coordinator.settings, coordinator.pipeline, "copy", "a test", "me")
    effect = back.preview()
    assert (effect.started.origin, effect.undone) == ("savepoint copy 1/2", ["1/3", "1/4", "1/5"])
    assert [(one.width, str(one)) for one in effect.read_again] == [(30, "t-0[30, 60)")]
    [target] = [table for table in effect.tables if table.verdict.table == "target"]
    assert (target.verdict.kind, target.rows) == ("keep", (len(rows(coordinator)), len(was)))
    back.restore()
    assert rows(coordinator) == sorted((row["id"], row["seq"]) for row in was)
    vacuumed(coordinator)
    drop(coordinator.settings, coordinator.pipeline, "copy")
    assert rows(coordinator) == sorted((row["id"], row["seq"]) for row in was), "the table has its own files again"


def test_a_table_that_was_made_anew_is_told(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    saved(coordinator, is_copy=True)
    [one] = seen(coordinator.settings, coordinator.pipeline)
    assert one.moved_on is None
    target = str(coordinator.tables.target)
    schema = DeltaTable(target).schema()
    shutil.rmtree(target)
    DeltaTable.create(target, schema)
    [one] = seen(coordinator.settings, coordinator.pipeline)
    assert (one.lost, one.moved_on) == (None, "target")
