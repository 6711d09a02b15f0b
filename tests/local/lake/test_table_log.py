"""What a table's log says while others commit to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from include.control.coordinator import Coordinator
from include.control.rebuilding import LedgerRebuild
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BatchCommitted
from tests.support.batches import batch, landed, source
from tests.support.hand_made import clean_log, commit, coordinator_of, land, make_target


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    return coordinator_of(tmp_path)


def test_i10_versions_are_those_of_the_commits_while_others_commit(coordinator: Coordinator) -> None:
    target = make_target(coordinator)
    for n in range(3):
        land(target, n + 1, batch(n))
    log = TableLog.open(LakeUri(str(target)))
    assert log is not None
    commit(target, 4)
    land(target, 5, batch(3))
    assert [e.version for e in log.entries("p")] == [0, 1, 2, 3], "as of the moment of opening"
    found = [(c.table_version, c.metadata.batch.batch_id) for c in log.landed_commits("p")]
    assert found == [(3, 2), (2, 1), (1, 0)]
    clean_log(target)
    log = TableLog.open(LakeUri(str(target)))
    land(target, 6, batch(4))
    assert [e.version for e in log.entries("p")] == [5], "what clean-up has left"


def test_i10_a_rebuilt_ledger_records_the_versions_that_the_batches_have(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_target(coordinator)
    for n in range(3):
        land(target, n + 1, batch(n))
    monkeypatch.setattr(Coordinator, "source", lambda self, state=None: source({("t", 0): (0, 100)}))
    LedgerRebuild(coordinator).rebuild("lost", "test")
    found = {e.batch_id: e.table_version for e in coordinator.ledger.events() if isinstance(e, BatchCommitted)}
    said = {n: json.loads(_provenance(target, n + 1)["userMetadata"])["batch_id"] for n in found}
    assert (found, said) == ({0: 1, 1: 2, 2: 3}, {0: 0, 1: 1, 2: 2})


def _provenance(target: Path, version: int) -> dict:
    file = target / "_delta_log" / f"{version:020}.json"
    return json.loads(file.read_text().splitlines()[0])["commitInfo"]


def test_no_code_asks_deltalake_for_a_history() -> None:
    """`DeltaTable.history` counts down from the version that was opened and reads from the newest commit on: its
    numbers are wrong as soon as somebody has committed in between."""
    folders = ("include", "spark_jobs", "plugins", "dags")
    root = Path(__file__).parents[3]
    files = [file for folder in folders for file in (root / folder).rglob("*.py")]
    assert len(files) > 100
    assert [str(file) for file in files if ".history(" in file.read_text()] == []


def test_i3_a_restore_that_another_one_takes_back_took_nothing_away(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    for n in range(3):
        write_deltalake(place, pa.table({"id": [n]}), mode="append")

    def found(since: int) -> tuple[int, int | None] | None:
        log = TableLog.open(LakeUri(place))
        assert log is not None
        return log.restored(since, log.version)

    assert found(1) is None
    DeltaTable(place).restore(0)
    assert (found(1), found(0), found(3)) == ((3, 0), None, None)
    DeltaTable(place).restore(2)
    assert found(1) is None
    DeltaTable(place).restore(3)
    assert found(1) == (3, 0), "it went back to what the first one had made"


def test_i3_a_restore_that_takes_a_backfills_chunk_away_is_noticed(tmp_path: Path) -> None:
    """Also one to the very version that the last live batch has made."""
    coordinator = coordinator_of(tmp_path)
    target, chunk = make_target(coordinator), batch(0, generation=-1)
    land(target, 1, batch(0))
    commit(target, 2, landed(chunk).metadata.dumps(), {chunk.app_id: 0})
    commit(target, 3)
    for back_to, found in ((2, None), (1, (5, 1))):
        DeltaTable(target).restore(back_to)
        log = TableLog.open(LakeUri(str(target)))
        assert log is not None
        assert log.restored(1, log.version) == found


def test_i3_of_several_restores_the_one_counts_that_went_back_furthest(tmp_path: Path) -> None:
    """The last one took only a chunk away. What the first one took is still gone."""
    coordinator = coordinator_of(tmp_path)
    target, chunk = make_target(coordinator), batch(0, generation=-1)
    land(target, 1, batch(0))
    DeltaTable(target).restore(0)
    commit(target, 3)
    commit(target, 4, landed(chunk).metadata.dumps(), {chunk.app_id: 0})
    DeltaTable(target).restore(3)
    log = TableLog.open(LakeUri(str(target)))
    assert log is not None
    assert (log.restored(1, log.version), log.restored(3, log.version)) == ((2, 0), (5, 3))


def test_i11_the_digest_of_rows_that_a_restore_has_taken_away_says_nothing(tmp_path: Path) -> None:
    coordinator = coordinator_of(tmp_path)
    target = make_target(coordinator)
    metadata = replace(landed(batch(0)).metadata, digest="d")
    commit(target, 1, metadata.dumps(), {batch(0).app_id: 0})
    assert TableLog.open(LakeUri(str(target))).digest_of(batch(0)) == "d"
    DeltaTable(target).restore(0)
    assert TableLog.open(LakeUri(str(target))).digest_of(batch(0)) is None


def test_i5_a_table_that_forgets_markers_is_not_asked_for_them(tmp_path: Path) -> None:
    """Else a batch that is there would be landed again."""
    uri, forgets = LakeUri(str(tmp_path / "t")), "delta.setTransactionRetentionDuration"
    DeltaTable.create(str(uri), pa.schema([("id", pa.int64())]), configuration={forgets: "interval 1 hours"})
    marker = Transaction(batch(0).app_id, 0, last_updated=1)
    write_deltalake(
        str(uri), pa.table({"id": [1]}), mode="append", commit_properties=CommitProperties(app_transactions=[marker])
    )
    DeltaTable(str(uri)).create_checkpoint()
    log = TableLog.open(uri)
    assert log is not None
    with pytest.raises(TerminalError, match=rf"UNSET TBLPROPERTIES \('{forgets}'\)"):
        log.marker_of(batch(0))
