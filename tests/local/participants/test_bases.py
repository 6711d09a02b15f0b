"""VACUUM by hand, between an attempt that never landed and the one that takes its rows back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.bases import Base, base_in, has_base
from include.participants.lacks import lacks_of
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.errors import TableDamaged, TerminalError
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position, Stamp, Where
from tests.support.batches import COUNTS, batch

HERE = Where("p", "history")


def written(folder: Path, batch_id: int, mode: Any = "append") -> tuple[TableLog, Position]:
    """Writes a batch to the table; returns the table's log, and where it stands."""
    of = batch(batch_id)
    text = CommitMetadata.of(of, "history", COUNTS, {}, "attempt", "v").dumps()
    marker = Transaction(of.app_id, Stamp(batch_id).number)
    properties = CommitProperties({"userMetadata": text}, app_transactions=[marker])
    write_deltalake(folder, pa.table({"id": [batch_id]}), mode=mode, commit_properties=properties)
    log = opened(folder)
    return log, log.position("p", 1)


def test_i11_a_base_without_its_files_is_named(tmp_path: Path) -> None:
    _, chain = written(tmp_path, 0)
    log, head = written(tmp_path, 1, "overwrite")
    assert base_in(log, chain, "p", batch=batch(1).key, where=HERE) == Base(0, (batch(1),))
    assert list(lacks_of("p", {"h": log}, named={"h": chain}, heads={"h": head}, state=LedgerState())) == []
    [lost] = DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(TableDamaged) as failure:
        base_in(log, chain, "p", batch=batch(1).key, where=HERE)
    assert failure.value.where == f"p, history, version 0 of {log.uri}"
    assert failure.value.found == f"no {lost}"
    assert not has_base(log, chain, "p")
    [lack] = lacks_of("p", {"h": log}, named={"h": chain}, heads={"h": head}, state=LedgerState())
    assert lack.is_surplus


def test_i11_a_change_of_another_writer_is_not_undone(tmp_path: Path) -> None:
    """A person has deleted rows, for good; the table holds rows of a batch that never landed."""
    _, chain = written(tmp_path, 0)
    _, head = written(tmp_path, 1)
    DeltaTable(tmp_path).optimize.compact()
    base_in(opened(tmp_path), chain, "p", batch=batch(1).key, where=HERE)
    DeltaTable(tmp_path).delete("id = 0")
    with pytest.raises(TerminalError, match="would undo that change") as failure:
        base_in(opened(tmp_path), chain, "p", batch=batch(1).key, where=HERE)
    assert "--accept history" in failure.value.action
    [lack] = lacks_of("p", {"h": opened(tmp_path)}, named={"h": chain}, heads={"h": head}, state=LedgerState())
    assert lack.is_surplus


def opened(folder: Path) -> TableLog:
    log = TableLog.open(LakeUri(str(folder)))
    assert log is not None
    return log
