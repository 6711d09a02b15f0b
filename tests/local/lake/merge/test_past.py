"""Which files earlier versions need, and what has become of them. Real Delta files, no Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.merge.frozen import freeze
from include.lake.merge.landing import land
from include.lake.merge.past import past_of, version_at
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.uri import LakeUri

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64())])


@pytest.fixture
def uri(tmp_path: Path) -> LakeUri:
    """Versions 1 to 5 are of batches, 6 has new rows in the place of all."""
    table = LakeUri(str(tmp_path / "lake/t"))
    Path(str(table)).mkdir(parents=True)
    DeltaTable.create(str(table), SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    for number in range(1, 7):
        ids = range(number, 40, number) if number < 6 else range(40)
        rows = pa.Table.from_pylist([{"id": n, "seq": number} for n in ids], SCHEMA)
        land(Snapshot.of(table), Upsert(rows, ("id",), ((("seq",),),), ("seq",)), None, None)
    return table


def test_they_are_whole_until_a_file_is_gone(uri: LakeUri) -> None:
    looked = past_of(uri, range(7))
    assert [past.lost for past in looked.values()] == [None] * 7
    assert [len(past.names) > 0 for past in looked.values()] == [False] + [True] * 6
    [only] = looked[1].names.keys() - looked[6].names.keys()
    (Path(str(uri)) / only).unlink()
    needing = [version for version in looked if only in looked[version].names]
    assert [v for v, past in past_of(uri, range(7)).items() if past.lost == only] == needing == [1, 2, 3, 4, 5]


def test_a_foreign_vacuum_breaks_those_that_need_what_it_has_removed(uri: LakeUri) -> None:
    DeltaTable(str(uri)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    lost = {version: past.lost for version, past in past_of(uri, range(7)).items()}
    assert (lost[0], lost[6]) == (None, None)
    assert all(lost[version] is not None for version in range(1, 6))


def test_where_the_log_no_longer_reaches_back_the_frozen_one_does(uri: LakeUri) -> None:
    frozen = LakeUri(str(uri.parent)) / "kept/t"
    was = Snapshot.at(uri, 2)
    assert was is not None
    freeze(was, frozen)
    DeltaTable(str(uri)).create_checkpoint()
    for version in range(4):
        (Path(str(uri)) / f"_delta_log/{version:020}.json").unlink()
    looked = past_of(uri, (1, 2, 6), lambda version: frozen if version == 2 else uri / "nowhere")
    assert {version: past.lost for version, past in looked.items()} == {
        1: "log clean-up has removed its log",
        2: None,
        6: None,
    }
    again = version_at(uri, 2, lambda version: frozen)
    assert again is not None
    assert (again.files, again.uri, again.version) == (was.files, uri, 2)
    assert version_at(uri, 1) is None


def test_a_log_that_is_cut_short_says_so(uri: LakeUri) -> None:
    (Path(str(uri)) / f"_delta_log/{3:020}.json").write_bytes(b'{"add": {')
    looked = past_of(uri, range(7))
    assert [version for version, past in looked.items() if past.lost] == [3, 4, 5, 6]
    assert "cut short" in str(looked[3].lost)
