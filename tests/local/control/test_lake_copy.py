"""A lake goes to an object store and back: nothing is planned in the old one any more, and the new one has all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.control import lake_copy
from include.control.coordinator import Coordinator
from include.control.lake_copy import NOTE, LakeCopy, reopen
from include.lake.stores import delta_options, files_at
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.ledger_events import BatchPlanned, PipelineMoved, TurnTaken
from include.protocol.planning import NewBatch
from tests.support.batches import batch
from tests.support.lossy_store import LossyStore
from tests.support.tables_before import with_one_batch

pytestmark = pytest.mark.usefixtures("_kafka")


def in_lake(coordinator: Coordinator, lake: LakeUri) -> Coordinator:
    return Coordinator(replace(coordinator.settings, lake=lake), coordinator.pipeline)


def copy(coordinator: Coordinator, to: LakeUri) -> dict:
    return LakeCopy(coordinator.settings, to, [coordinator.pipeline], print).run()


def contents(lake: LakeUri) -> dict[str, bytes]:
    """All files that belong to the lake wherever it lies."""
    files, own = files_at(lake), ("_lakemark/lake.json", "_lakemark/moved.json", NOTE)
    return {file.name: files.open(lake / file.name).read() for file in files.list(lake) if file.name not in own}


def test_there_and_back(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    (tmp_path / "lake/_lakemark/docs").mkdir()
    (tmp_path / "lake/_lakemark/docs/a page.html").write_text("of no table")
    done = copy(here, on_s3)
    assert contents(on_s3) == contents(here.settings.lake)
    assert done["files"] == len(contents(on_s3))
    there = in_lake(here, on_s3)
    assert isinstance(there.plan(), NewBatch), "the ledger and the tables say the same"
    back = in_lake(here, LakeUri(str(tmp_path / "back")))
    copy(there, back.settings.lake)
    assert contents(back.settings.lake) == contents(on_s3)
    assert back.ledger.state().pending is not None
    back.ledger.append(lambda state: [TurnTaken(1, "somebody", None)])  # it takes events


def test_i1_the_old_lake_plans_nothing_any_more(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    copy(here, on_s3)
    for refused in (
        here.plan,
        lambda: here.ledger.append(lambda state: [BatchPlanned(batch(1))]),
        lambda: here.ledger.append(lambda state: []),
        here.ledger.set_aside,
        lambda: Coordinator(here.settings, here.pipeline.model_copy(update={"name": "new"})).ledger.append(
            lambda state: [BatchPlanned(batch(0))]
        ),
    ):
        with pytest.raises(TerminalError, match=f"LAKEMARK_LAKE={on_s3}"):
            refused()


def test_a_copying_that_was_stopped_goes_on(
    tmp_path: Path, on_s3: LakeUri, store: LossyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_one_batch(tmp_path)
    real, tables = LakeCopy._copy_table, []

    def stopped(self: LakeCopy, table: str) -> None:
        tables.append(table)
        if len(tables) == 2:
            raise KeyboardInterrupt
        real(self, table)

    with monkeypatch.context() as patched:
        patched.setattr(LakeCopy, "_copy_table", stopped)
        with pytest.raises(KeyboardInterrupt):
            copy(here, on_s3)
    with pytest.raises(TerminalError):
        here.plan()
    store.seen.clear()
    copy(here, on_s3)
    assert contents(on_s3) == contents(here.settings.lake)
    assert not [asked for asked in store.seen if asked.startswith("PUT") and f"{tables[0]}/" in asked], "not again"


def test_one_that_began_may_be_taken_back_and_what_came_since_is_copied_the_next_time(
    tmp_path: Path, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_one_batch(tmp_path)

    def stopped(self: LakeCopy, tables: list[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LakeCopy, "_copy_rest", stopped)
        with pytest.raises(KeyboardInterrupt):
            copy(here, on_s3)
    assert reopen(here.settings) == 1
    assert isinstance(here.plan(), NewBatch)
    copy(here, on_s3)
    assert in_lake(here, on_s3).ledger.state().pending is not None
    with pytest.raises(TerminalError, match="live in the copy"):
        reopen(here.settings)


def test_an_attempt_that_lands_in_the_old_lake_meanwhile_leaves_a_state_that_goes_on(
    tmp_path: Path, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The point is copied before the tables beside it: of a batch that lands meanwhile, the copy has the rows beside
    at least where it has the point."""
    order: list[str] = []
    real = LakeCopy._copy_table

    def noted(self: LakeCopy, table: str) -> None:
        order.append(table)
        real(self, table)

    monkeypatch.setattr(LakeCopy, "_copy_table", noted)
    here = with_one_batch(tmp_path)
    copy(here, on_s3)
    assert order[0] == "_lakemark/ledger/p"
    target, history = (order.index(table) for table in ("silver/p", "silver/p_history"))
    assert target < history


def test_a_place_that_is_not_empty_is_refused(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    for place in (here.settings.lake, here.settings.lake / "inside", here.settings.lake.parent):
        with pytest.raises(TerminalError, match="a place apart"):
            copy(here, place)
    files_at(on_s3).publish(on_s3 / "silver/theirs.parquet", b"")
    with pytest.raises(TerminalError, match="an empty place"):
        copy(here, on_s3)
    assert here.ledger.state().moved is None, "nothing was stopped"


def test_a_file_that_does_not_arrive_as_it_was_is_told(
    tmp_path: Path, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = with_one_batch(tmp_path)
    monkeypatch.setattr(lake_copy, "_hash_of", lambda file: None)
    with pytest.raises(RetryableError, match="did not arrive as it was"):
        copy(here, on_s3)


def test_every_table_of_the_copy_can_be_read(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    copy(here, on_s3)
    for uri in (in_lake(here, on_s3).ledger.uri, in_lake(here, on_s3).tables.target):
        of_old = str(here.settings.lake) + str(uri).removeprefix(str(on_s3))
        version = DeltaTable(str(uri), storage_options=delta_options(uri)).version()
        assert version == DeltaTable(of_old).version()
    moved = in_lake(here, on_s3).ledger.state().moved
    assert moved == PipelineMoved(1, json.loads(contents_of(on_s3, "_lakemark/lake.json"))["lake"], str(on_s3))


def contents_of(lake: LakeUri, name: str) -> bytes:
    return files_at(lake).open(lake / name).read()
