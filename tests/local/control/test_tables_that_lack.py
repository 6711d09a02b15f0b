"""What begins a generation looks at every table: what one lacks is filled, or a person has named it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.cli.command import main
from include.control.coordinator import Coordinator
from include.control.rebuilding import LedgerRebuild
from include.lake.posix.log_store import PosixLogStore
from include.participants.catalog import Catalog
from include.protocol.errors import LedgerBehindTarget, RetryableError, TargetBehindLedger
from include.protocol.ledger_events import GenerationStarted
from include.protocol.participants import NOWHERE
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, source
from tests.support.hand_made import known_to_commands, make_target
from tests.support.tables_before import (
    ask,
    folder_before,
    land_at_the_point,
    land_before,
    make_before,
    reset,
    with_batches,
    with_tables,
)

TP = TopicPartition("t", 0)


def rebuilt(coordinator: Coordinator, *accepted: str) -> GenerationStarted:
    shutil.rmtree(str(coordinator.ledger.uri), ignore_errors=True)
    change = LedgerRebuild(coordinator, accepted=frozenset(accepted))
    return change.rebuild("lost", "test")[0]


@pytest.mark.usefixtures("_kafka")
def test_i3_a_reset_for_the_target_does_not_accept_a_history_that_was_rolled_back_further(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 4)
    DeltaTable(folder_before(coordinator, "history")).restore(2)
    with pytest.raises(TargetBehindLedger, match="history") as failure:
        reset(coordinator)
    assert "--accept history" in failure.value.action
    assert coordinator.ledger.state().generation == 1, "nothing was changed"


@pytest.mark.usefixtures("_kafka")
def test_i3_a_reset_for_another_reason_does_not_accept_a_target_that_was_lost(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 2)
    target = Path(str(coordinator.tables.target))
    shutil.rmtree(target)
    with pytest.raises(TargetBehindLedger) as failure:
        reset(coordinator)
    assert "--accept target" in failure.value.action
    assert not target.exists(), "nothing was changed"
    assert reset(coordinator, "earliest").start_offsets == {TP: 0}


@pytest.mark.usefixtures("_kafka")
def test_one_error_names_all_tables_that_lack_rows(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 4)
    for uri in (coordinator.tables.target, folder_before(coordinator, "history")):
        DeltaTable(str(uri)).restore(2)
    with pytest.raises(TargetBehindLedger, match="target, history") as failure:
        reset(coordinator)
    assert "the same command with --accept target --accept history" in failure.value.action


@pytest.mark.usefixtures("_kafka")
def test_i3_a_reset_for_another_reason_does_not_accept_a_target_that_was_rolled_back(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 4)
    DeltaTable(str(coordinator.tables.target)).restore(2)
    with pytest.raises(TargetBehindLedger) as failure:
        reset(coordinator)
    assert "`lakemark reset p --from 2 --reason ...` fills it again" in failure.value.action
    assert reset(coordinator, 2).start_offsets == {TP: 20}


@pytest.mark.usefixtures("_kafka")
@pytest.mark.parametrize("table", ["target", "history"])
def test_any_table_that_an_error_names_can_be_accepted_by_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    coordinator = known_to_commands(with_batches(tmp_path, 4), tmp_path, monkeypatch)
    [uri] = [p.uri(coordinator.settings) for p in Catalog.of(coordinator.pipeline).participants if p.name == table]
    DeltaTable(str(uri)).restore(2)
    reset_ = ["reset", "p", "--reason", "it is as it shall be"]
    assert main(reset_) == 1
    assert f"--accept {table}" in capsys.readouterr().err
    assert main([*reset_, "--accept", table]) == 0
    assert coordinator.ledger.state().generations[-1].start_offsets == {TP: 40}


@pytest.mark.usefixtures("_kafka")
def test_i11_what_an_attempt_has_left_in_a_lost_tables_place_is_no_part_of_it(tmp_path: Path) -> None:
    """It may never reach the point: the first batch of the new generation takes it back."""
    coordinator = with_batches(tmp_path, 2)
    shutil.rmtree(folder_before(coordinator, "history"))
    history = make_before(coordinator, "history")
    land_before(history, 1, batch(2))
    started = reset(coordinator, "earliest")
    found = (started.positions or {})["history"]
    assert found == replace(NOWHERE, version=0, identity=str(DeltaTable(history).metadata().id))


@pytest.mark.usefixtures("_kafka")
def test_i11_what_a_late_attempt_has_written_over_a_restore_is_taken_back(tmp_path: Path) -> None:
    """The first batch of the new generation makes the table anew from the rows that the person has chosen."""
    coordinator = with_batches(tmp_path, 2)
    named = coordinator.ledger.state().positions["history"]
    history = folder_before(coordinator, "history")
    DeltaTable(history).restore(1)
    land_before(history, 4, batch(1), revision=1)
    assert (reset(coordinator, "earliest").positions or {})["history"] == replace(named, version=3)


@pytest.mark.usefixtures("_kafka")
def test_a_disk_that_refuses_a_fence_is_named_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is made by hand: tests may run as a user who can write anywhere."""
    coordinator = with_batches(tmp_path, 2)

    def refuse(self: PosixLogStore, version: int, content: bytes, succeeds: str | None = None) -> bool:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(PosixLogStore, "create", refuse)
        with pytest.raises(RetryableError, match=r"a commit could not be written.*Read-only file system"):
            reset(coordinator)
    assert reset(coordinator).generation == 2


@pytest.mark.usefixtures("_kafka")
def test_i10_a_rebuild_does_not_accept_a_table_that_was_lost_with_the_ledger(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 2)
    shutil.rmtree(folder_before(coordinator, "history"))
    with pytest.raises(TargetBehindLedger, match="no table"):
        rebuilt(coordinator)
    assert rebuilt(coordinator, "history").start_offsets == {TP: 20}


@pytest.mark.usefixtures("_kafka")
def test_i10_a_rebuild_does_not_accept_a_table_that_was_rolled_back(tmp_path: Path) -> None:
    """A reset would stop at the lost ledger, so the advice begins with the rebuild."""
    coordinator = with_batches(tmp_path, 4)
    DeltaTable(folder_before(coordinator, "history")).restore(2)
    with pytest.raises(TargetBehindLedger, match="history") as failure:
        rebuilt(coordinator)
    first, then = re.findall(r"`(lakemark [^`]*)`", failure.value.action)
    assert first == "lakemark ledger rebuild p --accept history"
    assert then == "lakemark reset p --from earliest --reason ..."
    assert rebuilt(coordinator, "history").start_offsets == {TP: 40}
    assert reset(coordinator, "earliest").start_offsets == {TP: 0}


@pytest.mark.usefixtures("_kafka")
def test_i10_a_ledger_is_rebuilt_from_the_batches_whose_rows_are_there(tmp_path: Path) -> None:
    """A RESTORE leaves markers and commits of the batches that it took away."""
    coordinator = with_batches(tmp_path, 4)
    target = str(coordinator.tables.target)
    DeltaTable(target).restore(2)
    started = rebuilt(coordinator)
    assert (started.start_offsets, started.restored_to) == ({TP: 20}, 2)
    assert (started.positions or {})["history"].marker == 3, "it holds what had landed, and chunks may lie above that"


@pytest.mark.usefixtures("_kafka")
def test_i10_a_ledger_is_rebuilt_from_the_rows_if_no_such_batch_is_known(tmp_path: Path) -> None:
    coordinator = with_batches(tmp_path, 2)
    DeltaTable(str(coordinator.tables.target)).restore(0)
    assert rebuilt(coordinator, "history").start_offsets == {TP: 0}


@pytest.mark.usefixtures("_kafka")
def test_i11_a_rebuild_takes_back_what_never_landed_also_from_a_table_that_lacks_rows(tmp_path: Path) -> None:
    """The history lacks rows of the batches that the target still holds, and a reset knew that. What it holds of a
    batch since then is no part of it."""
    coordinator = with_batches(tmp_path, 2)
    history = folder_before(coordinator, "history")
    DeltaTable(history).restore(0)
    begun = reset(coordinator, "earliest")
    land_before(history, 5, batch(0, generation=2))
    DeltaTable(str(coordinator.tables.target)).restore(1)
    assert (rebuilt(coordinator, "history").positions or {})["history"] == (begun.positions or {})["history"]


@pytest.mark.usefixtures("_kafka")
def test_i7_a_reset_over_a_lost_ledger_decides_nothing(tmp_path: Path) -> None:
    coordinator = with_tables(tmp_path)
    land_at_the_point(make_target(coordinator), 1, batch(0, generation=2))
    land_before(make_before(coordinator, "history"), 1, batch(0, generation=2))
    with pytest.raises(LedgerBehindTarget, match="the ledger was lost"):
        reset(coordinator)
    assert rebuilt(coordinator, "history").generation == 3


@pytest.mark.usefixtures("_kafka")
def test_i3_reading_again_does_not_fill_a_target_with_what_kafka_has_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = with_batches(tmp_path, 4)
    shutil.rmtree(str(coordinator.tables.target))
    ask(monkeypatch, source({("t", 0): (25, 100)}))
    with pytest.raises(TargetBehindLedger, match=re.escape("Kafka no longer holds t-0[0, 25)")) as failure:
        reset(coordinator, "earliest")
    first, then = re.findall(r"`(lakemark [^`]*)`", failure.value.action)
    assert first == "lakemark reset p --from earliest --accept target --reason ..."
    assert then == "lakemark run p --from-archive"
    ask(monkeypatch, source({("t", 0): (0, 100)}))
    assert reset(coordinator, "earliest").start_offsets == {TP: 0}
