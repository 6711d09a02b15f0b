"""A kept snapshot goes on with the table that it was read from, and with no other. Real Delta files, no Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.merge.landing import land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upsert import Upsert
from include.lake.posix.log_store import PosixLogStore
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged
from tests.support.readers import by_deltalake


@pytest.fixture
def uri(tmp_path: Path) -> LakeUri:
    schema = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("name", pa.string())])
    DeltaTable.create(str(tmp_path / "t"), schema, configuration={"delta.enableDeletionVectors": "true"})
    return LakeUri(str(tmp_path / "t"))


def landed(table: Snapshot, ids: Iterable[int], seq: int, name: str) -> int:
    changes = pa.Table.from_pylist([{"id": i, "seq": seq, "name": name} for i in ids], table.schema)
    upsert = Upsert(changes, ("id",), ((("seq",),),), ("name",))
    return land(table, upsert, None, None)


def names(uri: LakeUri) -> dict[int, str]:
    rows = by_deltalake(str(uri))
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key has several rows"
    return found


class _Copy:
    """A copy of a table's folder, which a person brings back."""

    def __init__(self, uri: LakeUri) -> None:
        self.uri, self.folder = uri, tempfile.mkdtemp(dir=Path(str(uri)).parent)
        shutil.copytree(str(uri), self.folder, dirs_exist_ok=True)

    def brought_back(self) -> None:
        shutil.rmtree(str(self.uri))
        shutil.copytree(self.folder, str(self.uri))


def test_i5_a_table_that_was_brought_back_from_a_copy_is_read_anew(uri: LakeUri) -> None:
    """It has the same id, and by now more versions than the one that was lost."""
    landed(Snapshot.of(uri), range(10), 1, "first")
    copy = _Copy(uri)
    DeltaTable(str(uri)).alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})
    asleep = Snapshot.of(uri)
    copy.brought_back()
    landed(Snapshot.of(uri), range(100, 110), 5, "newer")
    landed(Snapshot.of(uri), range(5), 2, "newer")
    landed(asleep, range(100, 103), 1, "old, read again")
    assert names(uri) == {n: "newer" if n < 5 or n >= 100 else "first" for n in (*range(10), *range(100, 110))}


@pytest.mark.parametrize("moment", range(10))
def test_i5_a_table_that_is_brought_back_while_it_is_read_is_read_anew(
    uri: LakeUri, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Whatever the reader has asked the log last. Both pasts have the same versions."""
    landed(Snapshot.of(uri), range(10), 1, "first")
    base = _Copy(uri)
    reader = Snapshot.of(uri)
    for seq in (2, 3):
        landed(Snapshot.of(uri), [100 + seq], seq, "kept")
    copy = _Copy(uri)
    base.brought_back()
    for seq in (2, 3):
        landed(Snapshot.of(uri), [200 + seq], seq, "lost")
    asked = 0

    def at(method: str) -> None:
        real = getattr(PosixLogStore, method)

        def then(store: PosixLogStore, version: int) -> object:
            nonlocal asked
            found = real(store, version)
            if asked == moment:
                copy.brought_back()
            asked += 1
            return found

        monkeypatch.setattr(PosixLogStore, method, then)

    for method in ("stamp", "read", "commits"):
        at(method)
    landed(reader, [102, 202, 203], 9, "mine")
    assert asked > moment
    assert names(uri) == {**dict.fromkeys(range(10), "first"), 102: "mine", 103: "kept", 202: "mine", 203: "mine"}


def test_commits_that_come_while_the_newest_one_is_looked_for_are_no_gap(
    uri: LakeUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = Snapshot.of(uri), Snapshot.of(uri)
    has, done = PosixLogStore.has, []

    def others_land(store: PosixLogStore, version: int) -> bool:
        if not done:
            done.append(True)
            assert [landed(other, [n], n, "other") for n in (1, 2)] == [1, 2]
        return has(store, version)

    monkeypatch.setattr(PosixLogStore, "has", others_land)
    landed(mine, [3], 3, "mine")
    assert names(uri) == {1: "other", 2: "other", 3: "mine"}


def test_a_commit_that_is_gone_before_a_later_one_is_a_damage(uri: LakeUri) -> None:
    reader = Snapshot.of(uri)
    for seq in (1, 2):
        landed(Snapshot.of(uri), [seq], seq, "other")
    _commit(uri, 1).unlink()
    with pytest.raises(TableDamaged, match=f"{1:020}.json is missing"):
        landed(reader, [3], 3, "mine")


@pytest.mark.parametrize("forgotten", [2, 3, 4])
def test_a_snapshot_whose_commits_the_log_has_forgotten_begins_at_the_checkpoint(uri: LakeUri, forgotten: int) -> None:
    reader = Snapshot.of(uri)
    for seq in (1, 2, 3):
        landed(Snapshot.of(uri), [seq], seq, "other")
    DeltaTable(str(uri)).create_checkpoint()
    for version in range(forgotten):
        _commit(uri, version).unlink()
    landed(reader, [1, 4], 4, "mine")
    assert names(uri) == {1: "mine", 2: "other", 3: "other", 4: "mine"}


def test_a_log_that_is_cleaned_while_it_is_read_is_read_anew(uri: LakeUri, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint comes, and the commits before it go, after the reader has asked where the newest checkpoint is."""
    for seq in (1, 2, 3):
        landed(Snapshot.of(uri), [seq], seq, "other")
    asked, done = PosixLogStore.last_checkpoint, []

    def cleaned(store: PosixLogStore) -> bytes | None:
        found = asked(store)
        if not done:
            done.append(True)
            DeltaTable(str(uri)).create_checkpoint()
            _commit(uri, 1).unlink()
        return found

    monkeypatch.setattr(PosixLogStore, "last_checkpoint", cleaned)
    assert (Snapshot.of(uri).version, done) == (3, [True])


def _commit(uri: LakeUri, version: int) -> Path:
    return Path(str(uri), "_delta_log", f"{version:020}.json")


@pytest.mark.parametrize("newest", ["20.checkpoint.0000000001.0000000002.parquet", "20.checkpoint.4f.json"])
def test_i5_a_log_whose_newest_checkpoint_has_another_form_is_not_taken_to_end_before_it(
    uri: LakeUri, newest: str
) -> None:
    """Log clean-up may have removed the commits before it, and whoever named it last may just be writing the hint."""
    for seq in (1, 2, 3):
        landed(Snapshot.of(uri), [seq], seq, "other")
    DeltaTable(str(uri)).create_checkpoint()
    log = Path(str(uri), "_delta_log")
    (log / f"{0:018}{newest}").touch()
    (log / "_last_checkpoint").write_text("")
    with pytest.raises(UnfitError, match="another form"):
        Snapshot.of(uri)
