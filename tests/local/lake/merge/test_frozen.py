"""A version of a table is frozen as a table of its own, over the same files. Real Delta files, no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from include.lake.merge.deletion_vectors import read_vectors
from include.lake.merge.frozen import freeze, names_of, thawed
from include.lake.merge.landing import Marker, land
from include.lake.merge.restoring import Restoration
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.s3 import connection
from include.lake.stores import delta_options, files_at
from include.lake.uri import LakeUri
from tests.local.conftest import BUCKET

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64())])


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LakeUri]:
    """An empty place for a lake. No proxy stands before the store: deltalake holds the interpreter while it asks."""
    if request.param == "s3":
        for name, value in request.getfixturevalue("server").environment.items():
            monkeypatch.setenv(name, value)
    connection.forget()
    yield LakeUri(
        str(tmp_path / "a lake of 100 %") if request.param == "local" else f"s3://{BUCKET}/{uuid.uuid4().hex}"
    )
    connection.forget()


def made(lake: LakeUri) -> LakeUri:
    """A table of which earlier versions need other files, with deletion vectors."""
    table, told = lake / "silver/orders", {"delta.enableDeletionVectors": "true"}
    DeltaTable.create(str(table), SCHEMA, configuration=told, storage_options=delta_options(table))
    for number in range(5):
        rows = pa.Table.from_pylist([{"id": n, "seq": number} for n in range(number, 60, 1 + number)], SCHEMA)
        land(Snapshot.of(table), Upsert(rows, ("id",), ((("seq",),),), ("seq",)), Marker("app", number), None)
    return table


def rows(table: LakeUri) -> list[tuple]:
    found = DeltaTable(str(table), storage_options=delta_options(table))
    read = QueryBuilder().register("t", found).execute("select * from t").read_all()
    return sorted(tuple(row.values()) for row in pa.table(read).to_pylist())


def past(table: LakeUri, version: int) -> Snapshot:
    found = Snapshot.at(table, version)
    assert found is not None
    return found


def test_every_reader_can_read_it_and_it_comes_back_as_it_was(lake: LakeUri) -> None:
    table = made(lake)
    for version in (0, 2, 5):
        frozen = lake / f"_lakemark/savepoints/orders/s{version}/target"
        freeze(past(table, version), frozen)
        land(Snapshot.of(table), Restoration.to(past(table, version)), None, None)
        assert rows(frozen) == rows(table)
        back, was = thawed(frozen, table), past(table, version)
        assert (back.files, back.metadata, back.markers) == (was.files, was.metadata, was.markers)
        vectors = [file.get("deletionVector") for file in Snapshot.of(frozen).files.values()]
        assert [*map(len, read_vectors(frozen, vectors))] == [v["cardinality"] if v else 0 for v in vectors]


def test_its_files_are_those_of_the_table(lake: LakeUri) -> None:
    table = made(lake)
    names = names_of(past(table, 3))
    there = {file.name: file.size for file in files_at(table).list(table)}
    assert names.keys() < there.keys()
    assert {name for name in names if names[name] == there[name]} == {n for n in names if n.endswith(".parquet")}
    assert any(name.startswith("deletion_vector_") for name in names)
    frozen = lake / "elsewhere"
    freeze(past(table, 3), frozen)
    assert {name.rpartition("/")[2] for name in names_of(Snapshot.of(frozen))} == names.keys()


def test_a_frozen_table_stays_as_it_is(lake: LakeUri) -> None:
    table, frozen = made(lake), lake / "frozen"
    freeze(past(table, 1), frozen)
    before = rows(frozen)
    freeze(past(table, 4), frozen)
    assert rows(frozen) == before
