"""A listing that has a commit, and not yet the one before it: some stores give such, while others commit."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.log_store import commit_file
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.s3 import log_store
from include.lake.s3.objects import Found, Place, listed
from include.lake.stores import delta_options, files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TableDamaged
from tests.support.lossy_store import LossyStore

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(store: LossyStore, on_s3: LakeUri) -> LakeUri:
    table = on_s3 / "t"
    DeltaTable.create(str(table), SCHEMA, storage_options=delta_options(table))
    for number in range(5):
        land(Snapshot.of(table), Append(pa.table({"id": [number]}, SCHEMA)), Marker("app", number), None)
    return table


def without(monkeypatch: pytest.MonkeyPatch, *versions: int) -> None:
    """Listings lack these commits."""

    def some(place: Place, after: str = "", at_most: int | None = None) -> Iterator[Found]:
        for found in listed(place, after, at_most):
            if not found.key.endswith(tuple(map(commit_file, versions))):
                yield found

    monkeypatch.setattr(log_store, "listed", some)


def test_commits_that_a_listing_lacks_are_read_by_name(table: LakeUri, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Snapshot.of(table)
    without(monkeypatch, 2, 3)
    for found in (known, Snapshot.of(table)):
        found.brought_up()
        assert (found.version, found.markers, len(found.files)) == (5, {"app": 4}, 5)
    log = TableLog.open(table)
    assert log is not None
    assert (log.version, log.tail is not None) == (5, True)


def test_a_commit_that_is_gone_is_missed(table: LakeUri) -> None:
    files_at(table).remove(table / "_delta_log" / commit_file(3))
    with pytest.raises(TableDamaged, match=commit_file(3)):
        Snapshot.of(table)
