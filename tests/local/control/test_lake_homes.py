"""A pipeline lives in one lake: another one plans nothing, and takes no event."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from include.cli.command import main
from include.control.coordinator import Coordinator
from include.control.lake_copy import LakeCopy
from include.control.lake_homes import mark, reopen
from include.lake.lakes import MARK
from include.lake.stores import files_at
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BatchPlanned, TurnTaken
from tests.support.batches import batch
from tests.support.lake_copies import contents, contents_of, copy, in_lake, stopped_copy
from tests.support.tables_before import with_one_batch

pytestmark = pytest.mark.usefixtures("_kafka")


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


@pytest.mark.parametrize("command", ["status", "reset p --reason x", "maintain p", "backfill p --reason x"])
def test_commands_do_nothing_in_a_lake_that_its_pipelines_have_left(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, to = with_one_batch(tmp_path), LakeUri(f"{tmp_path}/new")
    copy(here, to)
    before = contents(here.settings.lake)
    monkeypatch.setenv("LAKEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEMARK_LAKE", str(here.settings.lake))
    assert main(command.split()) == 1
    assert f"set LAKEMARK_LAKE={to}" in capsys.readouterr().err
    assert contents(here.settings.lake) == before


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


def test_a_place_in_the_lake_is_none_though_a_link_leads_there(tmp_path: Path) -> None:
    here = with_one_batch(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    with pytest.raises(TerminalError, match="a lake lies in another one"):
        copy(here, LakeUri(f"{tmp_path}/link/deep"))
    assert here.ledger.state().moved is None


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


def test_a_place_that_is_not_empty_is_refused(tmp_path: Path, on_s3: LakeUri) -> None:
    here = with_one_batch(tmp_path)
    for place in (here.settings.lake, here.settings.lake / "inside", here.settings.lake.parent):
        with pytest.raises(TerminalError, match="a place apart"):
            copy(here, place)
    files_at(on_s3).publish(on_s3 / "silver/theirs.parquet", b"")
    with pytest.raises(TerminalError, match="an empty place"):
        copy(here, on_s3)
    assert here.ledger.state().moved is None, "nothing was stopped"
