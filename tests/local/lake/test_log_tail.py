"""The newest commits, read by name: they say what delta-rs says of the whole log."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from include.lake import table_log
from include.lake.delta_tables import open_table
from include.lake.log_tail import LogTail, newest_infos
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError, TableDamaged


def make(path: Path) -> None:
    DeltaTable.create(path, pa.schema([("id", pa.int64())]))


def commit(path: Path, version: int, **markers: int) -> Path:
    """A commit without rows, which sets these markers."""
    provenance = {"timestamp": time.time_ns() // 1_000_000, "operation": "MERGE", "operationParameters": {}}
    actions = [{"commitInfo": provenance}, *({"txn": {"appId": a, "version": v}} for a, v in markers.items())]
    file = path / "_delta_log" / f"{version:020}.json"
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return file


def make_checkpoint(path: Path) -> None:
    DeltaTable(path).create_checkpoint()


@pytest.fixture
def checkpointed(tmp_path: Path) -> Path:
    """A table with a checkpoint at version 5, and commits to version 8."""
    make(tmp_path)
    for version in range(1, 6):
        commit(tmp_path, version, old=version)
    make_checkpoint(tmp_path)
    for version in range(6, 9):
        commit(tmp_path, version, new=version)
    return tmp_path


@pytest.mark.parametrize("seed", range(5))
def test_what_the_tail_says_is_what_the_whole_log_says(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    make(tmp_path)
    for version in range(1, 60):
        commit(tmp_path, version, **{app: version for app in ("a", "b", "c") if chance.random() < 0.1})
        if chance.random() < 0.1:
            make_checkpoint(tmp_path)
        whole, log = DeltaTable(tmp_path), TableLog.open(LakeUri(str(tmp_path)))
        assert log is not None
        assert (log.version, log.table_id) == (whole.version(), str(whole.metadata().id))
        assert [log._marker(app) for app in ("a", "b", "c")] == [whole.transaction_version(a) for a in ("a", "b", "c")]
        assert list(newest_infos(LakeUri(str(tmp_path)), log.version, 7)) == whole.history(7)


def test_a_table_is_not_opened_for_what_its_newest_commits_and_checkpoint_say(
    checkpointed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int | None] = []

    def noted(uri: LakeUri, version: int | None = None) -> DeltaTable | None:
        opened.append(version)
        return open_table(uri, version)

    monkeypatch.setattr(table_log, "open_table", noted)
    log = TableLog.open(LakeUri(str(checkpointed)))
    assert log is not None
    assert (log.version, log._marker("new"), bool(log.table_id), opened) == (8, 8, True, [])
    commit(checkpointed, 9, old=9)
    assert log._marker("old") == 5, "as of the moment of opening, also where only the checkpoint says it"
    assert (log._marker("never"), opened) == (None, [])


def test_a_log_that_says_no_newest_checkpoint_is_read_whole(checkpointed: Path) -> None:
    log = checkpointed / "_delta_log"
    hint = log / "_last_checkpoint"
    for useless in ("", "[]", '{"version": "x"}', '{"version": 3}'):  # the last one: of a checkpoint that is not there
        hint.write_text(useless)
        assert LogTail.of(LakeUri(str(checkpointed))) is None
        assert TableLog.open(LakeUri(str(checkpointed))).version == 8
    hint.unlink()
    assert TableLog.open(LakeUri(str(checkpointed))).version == 8
    assert LogTail.of(LakeUri(str(checkpointed / "nowhere"))) is None


def test_a_table_that_was_made_anew_has_another_id(checkpointed: Path) -> None:
    before = TableLog.open(LakeUri(str(checkpointed))).table_id
    metadata = {"id": "another", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": []}), "configuration": {}}
    file = commit(checkpointed, 9)
    file.write_text(file.read_text() + json.dumps({"metaData": metadata}) + "\n")
    assert before != TableLog.open(LakeUri(str(checkpointed))).table_id == "another"


@pytest.mark.parametrize("left", [0, 40])
def test_a_commit_that_is_cut_short_or_empty_is_damage(checkpointed: Path, left: int) -> None:
    file = commit(checkpointed, 9, new=9)
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(TableDamaged, match=file.name):
        TableLog.open(LakeUri(str(checkpointed)))._marker("new")


def test_a_commit_that_is_not_readable_is_damage(checkpointed: Path) -> None:
    file = commit(checkpointed, 9, new=9)
    file.unlink()
    file.mkdir()
    with pytest.raises(TableDamaged, match=file.name):
        TableLog.open(LakeUri(str(checkpointed)))._marker("new")


@pytest.mark.parametrize("content", [b"", b"no parquet", b"another table", None])
def test_a_checkpoint_that_is_not_readable_is_damage(checkpointed: Path, content: bytes | None) -> None:
    """If the newest commits say all that is asked, nobody looks at it."""
    [file] = (checkpointed / "_delta_log").glob("*.checkpoint.parquet")
    match content:
        case None:
            file.unlink()
            file.mkdir()
        case b"another table":
            pq.write_table(pa.table({"id": [1]}), file)
        case _:
            file.write_bytes(content)
    log = TableLog.open(LakeUri(str(checkpointed)))
    assert log is not None
    assert log._marker("new") == 8
    with pytest.raises(TableDamaged, match=file.name):
        _ = log.table_id


def test_a_commit_that_vanishes_is_damage_and_no_older_one_speaks_in_its_place(checkpointed: Path) -> None:
    log = TableLog.open(LakeUri(str(checkpointed)))
    (checkpointed / "_delta_log" / f"{8:020}.json").unlink()
    with pytest.raises(TableDamaged, match="is gone"):
        log._marker("new")


def test_a_log_that_is_cleaned_while_it_is_read_is_read_again(checkpointed: Path) -> None:
    log = TableLog.open(LakeUri(str(checkpointed)))
    commit(checkpointed, 9)
    make_checkpoint(checkpointed)
    (checkpointed / "_delta_log" / f"{8:020}.json").unlink()
    with pytest.raises(RetryableError, match="cleaned while it was read"):
        log._marker("new")


def test_a_commit_may_say_nothing_of_itself(checkpointed: Path) -> None:
    commit(checkpointed, 9).write_text('{"txn":{"appId":"new","version":9}}\n')
    log = TableLog.open(LakeUri(str(checkpointed)))
    assert log._marker("new") == 9
    assert [info["version"] for info in newest_infos(log.uri, log.version, 3)] == [8, 7]
    assert [entry.version for entry in log.newest_entries("p", 3)] == [8, 7]


def test_a_gap_is_damage(checkpointed: Path) -> None:
    commit(checkpointed, 10, new=10)
    with pytest.raises(TableDamaged):
        TableLog.open(LakeUri(str(checkpointed)))
