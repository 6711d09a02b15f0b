"""How often what a batch does asks an object store: each request is ten milliseconds and more."""

from __future__ import annotations

from collections import Counter
from io import BytesIO

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap64

from include.lake.ledger import Ledger
from include.lake.log_store import succession
from include.lake.merge.deletion_vectors import read_vectors, write_vectors
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.stores import delta_options, files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted, BatchPlanned
from tests.support.batches import batch
from tests.support.lossy_store import LossyStore

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64())])


def upsert(table: LakeUri, number: int, ids: range) -> None:
    rows = pa.Table.from_pylist([{"id": n, "seq": number} for n in ids], SCHEMA)
    change = Upsert(rows, keys=("id",), order=((("seq",),),), stamp=("seq",))
    seen = Snapshot.of(table)
    land(seen, change, Marker("app", number), None, succeeds=succession(seen.version, seen.stamp))


def test_vectors_that_lie_in_one_file_are_read_by_one_request(store: LossyStore, on_s3: LakeUri) -> None:
    vectors, _ = write_vectors(on_s3, [BitMap64([n, n + 5]) for n in range(20)])
    store.seen.clear()
    assert [*map(set, read_vectors(on_s3, [None, *vectors]))] == [set(), *({n, n + 5} for n in range(20))]
    assert store.seen.total() == 1


@pytest.mark.parametrize(("lasting", "requests"), [(False, 2), (True, 5)])
def test_a_large_object_is_read_whole_by_few_requests(
    store: LossyStore, on_s3: LakeUri, lasting: bool, requests: int
) -> None:
    """Its size and end, and the rest; or, of one that never changes, blocks of 2 MB that the process keeps."""
    content = b"0123456789abcdef" * ((1 << 19) + 1)
    files_at(on_s3).write(on_s3 / "large", BytesIO(content))
    store.kinds.clear()
    with files_at(on_s3).open(on_s3 / "large", len(content) if lasting else None) as file:
        assert file.read() == content
    assert store.kinds == Counter(GET=requests)


def test_a_batch_of_the_lane_asks_as_often_however_many_files_the_table_has(store: LossyStore, on_s3: LakeUri) -> None:
    table, asked = on_s3 / "orders", []
    options, with_vectors = delta_options(table), {"delta.enableDeletionVectors": "true"}
    DeltaTable.create(str(table), SCHEMA, configuration=with_vectors, storage_options=options)
    for number in range(6):  # each changes rows of all files before it
        store.kinds.clear()
        upsert(table, number, range(number, 100, 2 + number))
        asked.append(Counter(store.kinds))
    # A look, and where the newest checkpoint is; the file of the batch before, which this process has not read; one or
    # two files of vectors. What the batch writes is a data file, a file of vectors and the commit, after a look at the
    # commit that it succeeds.
    assert all(kinds <= Counter(GET=4, LIST=1, PUT=3, HEAD=1) for kinds in asked), asked
    assert len(Snapshot.of(table).files) == 6


def test_a_look_at_a_table_that_is_known_is_one_request_and_at_none_are_three(
    store: LossyStore, on_s3: LakeUri
) -> None:
    table = on_s3 / "orders"
    DeltaTable.create(str(table), SCHEMA, storage_options=delta_options(table))
    assert TableLog.open(table) is not None
    DeltaTable(str(table), storage_options=delta_options(table)).create_checkpoint()
    for requests in (4, 1):  # where the checkpoint is, what is there since, the checkpoint itself; a look
        store.seen.clear()
        log = TableLog.open(table)
        assert log is not None
        assert log.marker("p", 1) is None
        assert store.seen.total() <= requests, store.seen
    store.seen.clear()
    assert TableLog.open(on_s3 / "none") is None
    assert store.seen.total() == 3, store.seen


def test_an_append_to_a_ledger_is_five_requests(store: LossyStore, on_s3: LakeUri) -> None:
    """A look; the row, the commit, after a look at the one that it succeeds; and a look at what is there then."""
    ledger = Ledger(on_s3 / "_lakemark/ledger/p")
    ledger.append(lambda state: [BatchPlanned(batch(0))])
    store.kinds.clear()
    ledger.append(lambda state: [AttemptStarted(1, 0, "a", "h", "cli")])
    assert store.kinds == Counter(LIST=2, PUT=2, HEAD=1)
