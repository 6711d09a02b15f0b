"""A lake goes to an object store and back: nothing is planned in the old one any more, and the new one has all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.control import lake_copy
from include.control.coordinator import Coordinator
from include.control.lake_copy import LakeCopy
from include.control.lake_homes import reopen
from include.lake import copying
from include.lake.s3.connection import client
from include.lake.s3.objects import Place
from include.lake.stores import delta_options
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.ledger_events import BatchPlanned, PipelineMoved, TurnTaken
from include.protocol.planning import NewBatch
from tests.support.batches import batch
from tests.support.lake_copies import contents, contents_of, copy, in_lake, stopped_copy
from tests.support.lossy_store import LossyStore
from tests.support.tables_before import folder_before, with_one_batch

pytestmark = pytest.mark.usefixtures("_kafka")


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


def test_marks_of_folders_are_no_files(tmp_path: Path, on_s3: LakeUri, store: LossyStore) -> None:
    """S3A leaves some where Spark makes a table."""
    here, back = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/back")
    copy(here, on_s3)
    there = in_lake(here, on_s3)
    place = Place.of(there.tables.target / "_delta_log/_staged_commits")
    client().put_object(Bucket=place.bucket, Key=f"{place.key}/", Body=b"")
    copy(there, back)
    assert contents(back) == contents(here.settings.lake) | contents(on_s3)


def test_sums_that_hadoop_keeps_of_local_files_are_not_copied(tmp_path: Path) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/new")
    log = Path(str(here.tables.target), "_delta_log")
    (log / "._last_checkpoint.crc").write_bytes(b"of this one")
    (log / f"{0:020}.crc").write_text("{}")  # Delta's own
    copy(here, to)
    copied = Path(str(in_lake(here, to).tables.target), "_delta_log")
    assert (copied / f"{0:020}.crc").exists()
    assert not (copied / "._last_checkpoint.crc").exists()


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
