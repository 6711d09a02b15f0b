"""A process that lands one batch after the other until it is killed. Its argument is the table.

Batch n sets ten keys to n, which n itself chooses. After each one it writes a line.
"""

from __future__ import annotations

import random
import sys

import pyarrow as pa

from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upkeep import keep_quick
from include.lake.merge.upsert import Upsert
from include.lake.uri import LakeUri

KEYS, APP = 300, "busy"
ORDER, STAMP = ((("_lakemark", "change_order", "seq"),),), ("_lakemark", "change_order")


def keys_of(number: int) -> list[int]:
    return random.Random(number).sample(range(KEYS), 10)


def changes_of(number: int, schema: pa.Schema) -> pa.Table:
    lineage = {"change_order": {"seq": number, "_offset": 0}, "deleted": False}
    rows = [{"bigint": key, "name": str(number), "_lakemark": lineage} for key in keys_of(number)]
    return pa.Table.from_pylist(rows, schema)


def main() -> None:
    uri = LakeUri(sys.argv[1])
    table = Snapshot.of(uri)
    while True:
        number = table.markers.get(APP, -1) + 1
        changes = Upsert(changes_of(number, table.schema), ("bigint",), ORDER, STAMP)
        land(table, changes, Marker(APP, number), "{}")
        keep_quick(table, ("bigint",))
        print(number, flush=True)


if __name__ == "__main__":
    main()
