"""A RESTORE of a table before the point removes rows, and leaves markers and the id of the table as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.heads import verify_ledger_not_lost, verify_not_rolled_back
from include.participants.lacks import lacks_of
from include.protocol.batch import FENCE, app_id
from include.protocol.errors import LedgerBehindTarget, TargetBehindLedger
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position, Stamp, Where

HERE = Where("p", "history")


def landed(folder: Path, batches: int) -> TableLog:
    """A table with this many batches of the pipeline p."""
    for batch_id in range(batches):
        marker = Transaction(app_id("p", 1), Stamp(batch_id).number)
        rows, properties = pa.table({"id": [batch_id]}), CommitProperties(app_transactions=[marker])
        write_deltalake(folder, rows, mode="append", commit_properties=properties)
    return opened(folder)


def opened(folder: Path) -> TableLog:
    log = TableLog.open(LakeUri(str(folder)))
    assert log is not None
    return log


def position(log: TableLog) -> Position:
    return log.position("p", 1)


def test_i11_a_restore_since_a_position_is_noticed(tmp_path: Path) -> None:
    named = position(landed(tmp_path, 3))
    verify_not_rolled_back(opened(tmp_path), named, HERE)
    DeltaTable(tmp_path).restore(1)
    assert position(opened(tmp_path)).is_at(named), "so the position alone proves nothing"
    with pytest.raises(TargetBehindLedger, match="rolled back a table") as failure:
        verify_not_rolled_back(opened(tmp_path), named, HERE)
    assert failure.value.found == "the rows of version 1"


def test_i11_a_restore_that_takes_back_only_what_never_landed_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """The next attempt makes the table anew, since nothing says any more what it holds of the batch."""
    named = position(landed(tmp_path, 1))
    landed(tmp_path, 2)
    DeltaTable(tmp_path).restore(named.version)
    verify_not_rolled_back(opened(tmp_path), named, HERE)
    verify_not_rolled_back(opened(tmp_path), None, HERE)  # one that no batch names is accepted


def test_i11_a_new_generation_accepts_a_table_that_was_rolled_back(tmp_path: Path) -> None:
    named = position(landed(tmp_path, 3))
    DeltaTable(tmp_path).restore(1)
    log = opened(tmp_path)
    [lack] = lacks_of("p", {"h": log}, named={"h": named}, heads={"h": position(log)}, state=LedgerState())
    assert (lack.found, lack.is_surplus) == ("the rows of version 1", False)
    verify_not_rolled_back(log, position(log), HERE)  # as a generation that accepts it has it


def test_i10_a_ledger_is_lost_if_the_target_knows_any_generation_that_a_table_knows(tmp_path: Path) -> None:
    """A target that was lost itself, and made anew by a later generation, has no fence of the first one."""
    target, beside = opened_with(tmp_path / "target", 2, 0), opened_with(tmp_path / "history", 1, FENCE)
    for known in (target, opened_with(tmp_path / "first", 1, 0)):
        with pytest.raises(LedgerBehindTarget, match="the ledger was lost"):
            verify_ledger_not_lost("p", known, {"history": beside})
    verify_ledger_not_lost("p", opened_with(tmp_path / "other", 2, 0, pipeline="q"), {"history": beside})
    verify_ledger_not_lost("p", None, {"history": beside})


def opened_with(folder: Path, generation: int, marker: int, pipeline: str = "p") -> TableLog:
    properties = CommitProperties(app_transactions=[Transaction(app_id(pipeline, generation), marker)])
    write_deltalake(folder, pa.table({"id": [1]}), commit_properties=properties)
    return opened(folder)
