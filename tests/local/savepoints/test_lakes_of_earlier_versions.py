"""Savepoints that earlier versions have made, with a batch pending: the newest version restores and clones them.

`lakes/VERSION.tar.xz` is a lake that `made_by_this_version` has left in that version. Whoever releases a version adds
its lake: `python -m tests.local.savepoints.test_lakes_of_earlier_versions`.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

import pytest

from include.checkpoints.shelf import taken
from include.control.coordinator import Coordinator
from include.protocol.ledger_events import BatchPlanned
from include.savepoints.checking import checked, seen
from include.savepoints.cloning import Cloning
from include.savepoints.restoring import restoring
from tests.support.archives import unpack
from tests.support.batches import batch
from tests.support.readers import by_deltalake
from tests.support.saved import saved, vacuumed
from tests.support.six_batches import BATCHES, IN_KAFKA, made, rows
from tests.support.tables_before import ask, with_tables

LAKES = Path(__file__).parent / "lakes"
EXPECTED = "expected.json"


def made_by_this_version(folder: Path) -> None:
    """A lake with a pin and a copy, of which the copy alone has all of its files; and a batch that has not landed."""
    coordinator = made(folder)
    was = {}
    for name, at in (("copy", "1"), ("pin", "5")):
        saved(coordinator, name, at=at, is_copy=name == "copy", is_deep=True)
        was[name] = sorted([row["id"], row["seq"]] for row in _of(coordinator, name))
    coordinator.ledger.append(lambda state: [BatchPlanned(batch(BATCHES))])
    vacuumed(coordinator)
    (folder / EXPECTED).write_text(json.dumps(was))


def _of(coordinator: Coordinator, name: str) -> list[dict]:
    return by_deltalake(str(coordinator.tables.saved(name, "target")))


@pytest.fixture(params=sorted(path.name.removesuffix(".tar.xz") for path in LAKES.glob("*.tar.xz")))
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    with tarfile.open(LAKES / f"{request.param}.tar.xz") as packed:
        unpack(packed, tmp_path)
    ask(monkeypatch, IN_KAFKA)
    return with_tables(tmp_path)


@pytest.mark.parametrize("name", ["copy", "pin"])
def test_they_are_whole_and_restored(lake: Coordinator, tmp_path: Path, name: str) -> None:
    assert [one.lost for one in seen(lake.settings, lake.pipeline)] == [None, None]
    assert checked(lake.settings, lake.pipeline, name, is_deep=True).problems == []
    pending = lake.ledger.state().pending
    assert pending is not None
    started = restoring(lake.settings, lake.pipeline, name, reason="a test", started_by="me").restore()
    assert [list(row) for row in rows(lake)] == json.loads((tmp_path / EXPECTED).read_text())[name]
    assert started.start_offsets == taken(lake.settings, lake.pipeline, name).checkpoint.next_offsets
    assert lake.ledger.state().pending is None, "its generation has ended"


@pytest.mark.parametrize("name", ["copy", "pin"])
def test_another_pipeline_begins_with_them(lake: Coordinator, tmp_path: Path, name: str) -> None:
    places = {"table": "lake://silver/q", "history_table": "lake://silver/q_history"}
    target = lake.pipeline.target.model_copy(update=places)
    new = lake.pipeline.model_copy(update={"name": "q", "target": target, "archive": "lake://bronze/q"})
    Cloning(lake.settings, lake.pipeline, name, new, reason="a test", started_by="me").begin()
    found = Coordinator(lake.settings, new)
    assert [list(row) for row in rows(found)] == json.loads((tmp_path / EXPECTED).read_text())[name]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        made_by_this_version(Path(scratch))
        version = with_tables(Path(scratch)).settings.code_version
        with tarfile.open(LAKES / f"{version}.tar.xz", "w:xz") as packed:
            for part in ("lake", EXPECTED):
                packed.add(Path(scratch, part), part)
