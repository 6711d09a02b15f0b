"""A table is made what it was in one commit. Real Delta files, no Spark; deltalake reads them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field

from include.lake.merge.compaction import Compaction
from include.lake.merge.landing import Marker, MarkerIsThereError, land
from include.lake.merge.restoring import Restoration
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.merge.upsert import Upsert
from include.lake.uri import LakeUri
from tests.support.readers import Rows, by_deltalake

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("name", pa.string())])


@pytest.fixture
def uri(tmp_path: Path) -> LakeUri:
    DeltaTable.create(str(tmp_path / "t"), SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    return LakeUri(str(tmp_path / "t"))


def landed(uri: LakeUri, ids: Iterable[int], seq: int) -> int:
    table = Snapshot.of(uri)
    changes = pa.Table.from_pylist([{"id": i, "seq": seq, "name": f"n{seq}"} for i in ids], SCHEMA)
    return land(table, Upsert(changes, ("id",), ((("seq",),),), ("name",)), None, None)


def rows(uri: LakeUri) -> Rows:
    return sorted(by_deltalake(str(uri)), key=lambda row: row["id"])


def restored(uri: LakeUri, version: int, marker: Marker | None = None) -> int:
    past = Snapshot.at(uri, version)
    assert past is not None
    return land(Snapshot.of(uri), Restoration.to(past), marker, None)


@pytest.mark.parametrize("seed", range(8))
def test_every_version_comes_back_as_it_was(uri: LakeUri, seed: int) -> None:
    """Whatever was done since: rows replaced, files rewritten, checkpoints written, another restore."""
    chance, seen = random.Random(seed), {0: rows(uri)}
    for step in range(1, 25):
        match chance.choice(["land", "land", "compact", "checkpoint", "restore"]):
            case "land":
                version = landed(uri, chance.sample(range(30), chance.randint(1, 12)), step)
            case "compact":
                version = land(Snapshot.of(uri), Compaction(("id",)), None, None)
            case "checkpoint":
                DeltaTable(str(uri)).create_checkpoint()
                continue
            case "restore":
                back_to = chance.choice(sorted(seen))
                version = restored(uri, back_to)
                assert rows(uri) == seen[back_to]
        seen[version] = rows(uri)
    for version in seen:
        restored(uri, version)
        assert rows(uri) == seen[version], f"version {version}"


def test_an_earlier_version_is_read_as_it_was(uri: LakeUri) -> None:
    for step in range(1, 14):
        landed(uri, range(step), step)
    DeltaTable(str(uri)).create_checkpoint()
    landed(uri, [1], 99)
    for version in range(15):
        past = Snapshot.at(uri, version)
        assert past is not None
        there = DeltaTable(str(uri), version=version).get_add_actions().column("path").to_pylist()
        assert sorted(path for path, _ in past.files) == sorted(there)


def test_what_log_clean_up_has_removed_is_no_version(uri: LakeUri) -> None:
    for step in range(1, 5):
        landed(uri, [step], step)
    DeltaTable(str(uri)).create_checkpoint()
    for version in range(3):
        (Path(str(uri)) / f"_delta_log/{version:020}.json").unlink()
    assert [Snapshot.at(uri, version) is not None for version in range(6)] == [False] * 4 + [True, False]


def test_i5_it_carries_a_marker_and_lands_once(uri: LakeUri) -> None:
    landed(uri, [1], 1)
    marker, before = Marker("lakemark/p/g1", 2**63 - 1), rows(uri)
    landed(uri, [1, 2], 2)
    restored(uri, 1, marker)
    landed(uri, [3], 3)
    with pytest.raises(MarkerIsThereError):
        restored(uri, 1, marker)
    assert DeltaTable(str(uri)).transaction_version(marker.app_id) == marker.number
    assert rows(uri) == [*before, {"id": 3, "seq": 3, "name": "n3"}]


def test_columns_and_properties_come_back_and_the_table_stays_the_same_one(uri: LakeUri) -> None:
    landed(uri, [1], 1)
    before, at = rows(uri), DeltaTable(str(uri)).version()
    table = DeltaTable(str(uri))
    table.alter.add_columns([Field("more", "string")])
    table.alter.set_table_properties({"lakemark.tombstonesPurgedTo": "[]"}, raise_if_not_exists=False)
    restored(uri, at)
    after = DeltaTable(str(uri))
    assert [field.name for field in after.schema().fields] == ["id", "seq", "name"]
    assert "lakemark.tombstonesPurgedTo" not in after.metadata().configuration
    assert (rows(uri), after.metadata().id) == (before, table.metadata().id)


def test_a_table_is_emptied_where_there_was_none(uri: LakeUri) -> None:
    landed(uri, range(9), 1)
    land(Snapshot.of(uri), Restoration(), None, None)
    assert rows(uri) == []
    landed(uri, [4], 2)
    assert [row["id"] for row in rows(uri)] == [4]


def test_a_table_that_may_only_be_appended_to_loses_nothing(uri: LakeUri) -> None:
    landed(uri, [1], 1)
    DeltaTable(str(uri)).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(UnfitError, match="appendOnly"):
        land(Snapshot.of(uri), Restoration(), None, None)


def test_files_that_are_the_same_are_left_alone(uri: LakeUri) -> None:
    landed(uri, [1], 1)
    at = landed(uri, [2], 2)
    landed(uri, [3], 3)
    folder = Path(str(uri))
    files = {file.name for file in folder.glob("*.parquet")}
    version = restored(uri, at)
    said = (folder / f"_delta_log/{version:020}.json").read_text().splitlines()
    assert [next(iter(json.loads(line))) for line in said] == ["commitInfo", "remove"]
    assert {file.name for file in folder.glob("*.parquet")} == files
