"""A lake goes to an object store and back: nothing is planned in the old one any more, and the new one has all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.control import lake_copy
from include.control.coordinator import Coordinator
from include.control.lake_copy import LakeCopy
from include.control.lake_homes import mark, reopen
from include.lake import copying
from include.lake.lakes import COPIED, COPYINGS, MARK
from include.lake.s3.connection import client
from include.lake.s3.objects import Place
from include.lake.stores import delta_options, files_at
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.ledger_events import BatchPlanned, PipelineMoved, TurnTaken
from include.protocol.planning import NewBatch
from tests.support.batches import batch
from tests.support.lossy_store import LossyStore
from tests.support.tables_before import folder_before, with_one_batch

pytestmark = pytest.mark.usefixtures("_kafka")


def in_lake(coordinator: Coordinator, lake: LakeUri) -> Coordinator:
    return Coordinator(replace(coordinator.settings, lake=lake), coordinator.pipeline)


def copy(coordinator: Coordinator, to: LakeUri) -> dict:
    return LakeCopy(coordinator.settings, to, [coordinator.pipeline], print).run()


def contents(lake: LakeUri) -> dict[str, bytes]:
    """All files that belong to the lake wherever it lies."""
    files, own = files_at(lake), ("_lakemark/lake.json", "_lakemark/moved.json", COPIED, COPYINGS)
    return {
        file.name: files.open(lake / file.name).read() for file in files.list(lake) if not file.name.startswith(own)
    }


def stopped_copy(coordinator: Coordinator, to: LakeUri, step: str = "_copy_rest", after: int = 0) -> None:
    """A copying that is killed at a step, when it has been done so often."""
    real, done = getattr(LakeCopy, step), 0

    def stop(self: LakeCopy, *given: object) -> None:
        nonlocal done
        if done == after:
            raise KeyboardInterrupt
        done += 1
        real(self, *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LakeCopy, step, stop)
        with pytest.raises(KeyboardInterrupt):
            copy(coordinator, to)


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


def test_a_copying_that_was_stopped_goes_on(tmp_path: Path, on_s3: LakeUri, store: LossyStore) -> None:
    here = with_one_batch(tmp_path)
    stopped_copy(here, on_s3, "_copy_table", after=1)
    with pytest.raises(TerminalError):
        here.plan()
    store.seen.clear()
    copy(here, on_s3)
    assert contents(on_s3) == contents(here.settings.lake)
    assert not [asked for asked in store.seen if asked.startswith("PUT") and "/ledger/p/" in asked], "not again"


def test_one_that_began_may_be_taken_back_and_what_came_since_is_copied_the_next_time(
    tmp_path: Path, on_s3: LakeUri
) -> None:
    here = with_one_batch(tmp_path)
    stopped_copy(here, on_s3)
    assert reopen(here.settings) == 1
    strange = Coordinator(here.settings, here.pipeline.model_copy(update={"name": "new"}))
    strange.ledger.append(lambda state: [BatchPlanned(batch(0))])
    assert isinstance(here.plan(), NewBatch)
    copy(here, on_s3)
    assert in_lake(here, on_s3).ledger.state().pending is not None
    with pytest.raises(TerminalError, match="live in the copy"):
        reopen(here.settings)


@pytest.mark.parametrize("step", ["note_move", "move"])
def test_one_that_dies_as_it_begins_again_trusts_nothing_that_was_copied_before(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(str(tmp_path / "new"))
    stopped_copy(here, to)
    reopen(here.settings)
    here.plan()
    real = getattr(lake_copy, step)

    def dies(*given: object) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lake_copy, step, dies)
        with pytest.raises(KeyboardInterrupt):
            copy(here, to)
    copy(here, to)
    assert contents(to) == contents(here.settings.lake)


def test_i3_what_the_lake_has_lost_since_a_copying_was_stopped_is_not_in_the_copy(tmp_path: Path) -> None:
    """A commit of a table that was made anew would be read."""
    here, to = with_one_batch(tmp_path), LakeUri(str(tmp_path / "new"))
    target, history = Path(str(here.tables.target)), folder_before(here, "history")
    other = tmp_path / "lake/silver/other"
    DeltaTable.create(str(other), pa.schema([("id", pa.int64())]))
    stopped_copy(here, to)
    reopen(here.settings)
    for gone in (target, other):
        shutil.rmtree(gone)
    (history / "_delta_log/00000000000000000001.json").unlink()
    DeltaTable.create(str(target), pa.schema([("id", pa.int64())]))
    copy(here, to)
    assert contents(to) == contents(here.settings.lake)
    assert DeltaTable(str(in_lake(here, to).tables.target)).version() == 0


def test_i1_a_lake_goes_to_one_place_only(tmp_path: Path) -> None:
    here, first, second = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/first"), LakeUri(f"{tmp_path}/second")
    stopped_copy(here, first)
    with pytest.raises(TerminalError, match="on its way to another place"):
        copy(here, second)
    copy(here, first)
    for refused in (lambda: copy(here, second), lambda: reopen(here.settings)):
        with pytest.raises(TerminalError, match="live in the copy"):
            refused()
    assert not Path(str(second)).exists()
    in_lake(here, first).ledger.append(lambda state: [TurnTaken(1, "somebody", None)])


def test_i1_a_copy_that_is_not_whole_takes_nothing(tmp_path: Path) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/new")
    stopped_copy(here, to, "_copy_table", after=2)
    there = in_lake(here, to)
    strange = Coordinator(there.settings, here.pipeline.model_copy(update={"name": "new"}))
    for refused in (
        there.plan,
        lambda: there.ledger.append(lambda state: [TurnTaken(1, "somebody", None)]),
        lambda: strange.ledger.append(lambda state: [BatchPlanned(batch(0))]),
        lambda: reopen(there.settings),
        lambda: copy(there, LakeUri(f"{tmp_path}/further")),
    ):
        with pytest.raises(TerminalError, match="not whole yet") as told:
            refused()
    assert f"`LAKEMARK_LAKE={here.settings.lake} lakemark lake copy {to}`" in str(told.value)
    copy(here, to)
    there.plan()


def test_marks_of_folders_are_no_files(tmp_path: Path, on_s3: LakeUri, store: LossyStore) -> None:
    """S3A leaves some where Spark makes a table."""
    here, back = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/back")
    copy(here, on_s3)
    there = in_lake(here, on_s3)
    place = Place.of(there.tables.target / "_delta_log/_staged_commits")
    client().put_object(Bucket=place.bucket, Key=f"{place.key}/", Body=b"")
    copy(there, back)
    assert contents(back) == contents(here.settings.lake) | contents(on_s3)


def test_i1_a_copying_that_was_taken_back_while_it_went_on_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/new")
    real = LakeCopy._copy_rest

    def meanwhile(self: LakeCopy, tables: list[str]) -> None:
        real(self, tables)
        assert reopen(here.settings) == 1

    with monkeypatch.context() as patched:
        patched.setattr(LakeCopy, "_copy_rest", meanwhile)
        with pytest.raises(TerminalError, match="taken back while it went on"):
            copy(here, to)
    with pytest.raises(TerminalError, match="not whole yet"):
        in_lake(here, to).plan()
    here.plan()
    copy(here, to)
    assert contents(to) == contents(here.settings.lake)


def test_i5_two_lakes_do_not_go_to_one_place(tmp_path: Path, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find it empty. One of them takes it; the other one is not stopped."""
    one, other = with_one_batch(tmp_path / "one"), with_one_batch(tmp_path / "other")
    real = LakeCopy._begun

    def meanwhile(self: LakeCopy) -> object:
        found = real(self)
        monkeypatch.setattr(LakeCopy, "_begun", real)
        copy(other, on_s3)
        return found

    monkeypatch.setattr(LakeCopy, "_begun", meanwhile)
    with pytest.raises(TerminalError, match="an empty place"):
        copy(one, on_s3)
    assert contents(on_s3) == contents(other.settings.lake)
    assert one.ledger.state().moved is None


def test_i1_a_lake_in_use_is_no_place_for_another_one_though_it_has_only_ledgers(
    tmp_path: Path, on_s3: LakeUri
) -> None:
    here = with_one_batch(tmp_path)
    theirs = in_lake(here, on_s3).ledger
    theirs.append(lambda state: [BatchPlanned(batch(0))])
    with pytest.raises(TerminalError, match="an empty place"):
        copy(here, on_s3)
    assert len(theirs.events()) == 1
    assert here.ledger.state().moved is None


def test_sums_that_hadoop_keeps_of_local_files_are_not_copied(tmp_path: Path) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/new")
    log = Path(str(here.tables.target), "_delta_log")
    (log / "._last_checkpoint.crc").write_bytes(b"of this one")
    (log / f"{0:020}.crc").write_text("{}")  # Delta's own
    copy(here, to)
    copied = Path(str(in_lake(here, to).tables.target), "_delta_log")
    assert (copied / f"{0:020}.crc").exists()
    assert not (copied / "._last_checkpoint.crc").exists()


def test_a_mark_that_was_lost_is_written_again(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    copy(here, on_s3)
    there = in_lake(here, on_s3)
    there.plan()
    before = contents_of(on_s3, MARK)
    files_at(on_s3).remove(on_s3 / MARK)
    for refused in (there.plan, lambda: there.ledger.append(lambda state: [TurnTaken(1, "somebody", None)])):
        with pytest.raises(TerminalError, match="`lakemark lake mark` writes it again"):
            refused()
    assert mark(replace(there.settings, home=tmp_path / "another")) == json.loads(before)["lake"]
    there.plan()
    with pytest.raises(TerminalError, match="cannot be written again"):
        mark(there.settings)


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
    monkeypatch.setattr(copying, "_hash_of", lambda file: None)
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
