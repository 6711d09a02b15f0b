"""`make bench-commits`: what the lane's commits cost as they pile up on one table: time, files, bytes, time to read.

Only the commits: no Kafka, and no Spark, which would take most of the hour that two thousand batches need. Every commit
looks at the table anew, as the job of each batch does. The first hundred batches are the measure of all others.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upkeep import keep_quick
from include.lake.merge.upsert import Upsert
from include.lake.uri import LakeUri

_LINEAGE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_ORDER = ((("updated_at",),), *((("_lakemark", name),) for name in ("topic", "partition", "offset")))
_EVERY = 100  # batches of which one line tells


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commits", description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--changes", type=int, default=8_000, help="of a batch")
    parser.add_argument("--rows", type=int, default=500_000, help="of the table, at first")
    parser.add_argument("--anywhere", action="store_true", help="changes are of any row, not of recent ones")
    options = parser.parse_args()
    print("batches  commit (median, p95, longest)  with upkeep  files  MB  log MB  entries  read")
    with tempfile.TemporaryDirectory(prefix="lakemark-bench-") as folder:
        table = LakeUri(f"{folder}/table")
        newest = _filled(table, options.rows)
        taken: list[tuple[float, float]] = []
        for number, ids in enumerate(_batches(options.rows, options.batches, options.changes, options.anywhere)):
            rows = _rows(ids, number + 1)
            newest = np.concatenate([newest, np.zeros(max(0, int(ids.max()) + 1 - len(newest)), dtype=np.int64)])
            newest[ids] = number + 1
            began = time.monotonic()
            snapshot = Snapshot.of(table)
            land(snapshot, Upsert(rows, ("id",), _ORDER, ("_lakemark", "offset")), Marker("bench", number), "{}")
            committed = time.monotonic()
            keep_quick(snapshot, ("id",))
            taken.append((committed - began, time.monotonic() - began))
            if (number + 1) % _EVERY == 0:
                _tell(number + 1, taken, Path(str(table)))
                taken.clear()
        _verify(table, newest)
    return 0


def _batches(rows: int, batches: int, changes: int, anywhere: bool) -> Iterator[npt.NDArray[np.int64]]:
    """The ids of each batch: three of ten are new, the others are there; most of them are young."""
    chance = np.random.default_rng(1)
    for _ in range(batches):
        new = np.arange(rows, rows + changes * 3 // 10)
        ages = chance.integers(0, rows, changes) if anywhere else chance.exponential(rows / 100, changes).astype(int)
        rows += len(new)
        known = np.unique(np.clip(rows - 1 - ages, 0, None))[: changes - len(new)]
        ids = np.unique(np.concatenate([new, known]))
        chance.shuffle(ids)
        yield ids.astype(np.int64)


def _rows(ids: npt.NDArray[np.int64], at: int) -> pa.Table:
    numbers = np.arange(len(ids), dtype=np.int64)
    fields = [pa.array(["orders"] * len(ids)), pa.array((numbers % 4).astype(np.int32)), pa.array(numbers)]
    return pa.table(
        {
            "id": ids,
            "customer": [f"customer {n % 9973}" for n in ids],
            "amount": ids / 100,
            "updated_at": pa.array(np.full(len(ids), at), pa.timestamp("us", "UTC")),
            "_lakemark": pa.StructArray.from_arrays(fields, fields=list(_LINEAGE)),
        }
    )


def _filled(table: LakeUri, rows: int) -> npt.NDArray[np.int64]:
    switched_on = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(table), _rows(np.arange(rows), 0), configuration=switched_on)
    return np.zeros(rows, dtype=np.int64)


def _tell(batches: int, taken: list[tuple[float, float]], folder: Path) -> None:
    commits = sorted(commit for commit, _ in taken)
    with_upkeep = statistics.mean(both for _, both in taken)
    table = DeltaTable(str(folder))
    size = sum(pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist())
    log = [file.stat().st_size for file in (folder / "_delta_log").iterdir()]
    began = time.monotonic()
    _read(folder)
    read = time.monotonic() - began
    p95 = commits[len(commits) * 95 // 100]
    print(
        f"{batches:7}  {statistics.median(commits):.3f} {p95:.3f} {commits[-1]:.3f} s  {with_upkeep:.3f} s  "
        f"{len(table.file_uris())}  {size / 1e6:.1f}  {sum(log) / 1e6:.1f}  {len(log)}  {read:.2f} s",
        flush=True,
    )


def _read(folder: Path) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(str(folder)))
    return pa.table(query.execute("SELECT id, customer, updated_at FROM t").read_all())


def _verify(table: LakeUri, newest: npt.NDArray[np.int64]) -> None:
    found = _read(Path(str(table)))
    at = np.full(len(newest), -1)
    at[found["id"].to_numpy()] = found["updated_at"].cast(pa.int64()).to_numpy()
    assert len(found) == len(newest), "no id twice, none lost"
    assert (at == newest).all(), "each row shows its newest change"
    print(f"{len(newest):,} rows are as they must be")


if __name__ == "__main__":
    raise SystemExit(main())
