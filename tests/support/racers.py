"""Writers of one table that race: `python -m tests.support.racers KIND URI NAME COMMITS`. Each commit adds one row, or
for the fence one marker; each writer prints what it was told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from include.lake.delta_tables import CHECKPOINT_EVERY, commit_markers, open_table
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.uri import LakeUri
from tests.support.readers import options_of

SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])
Told = dict[int, int]  # by version: the number that its writer gave


def row(name: str, number: int) -> pa.Table:
    return pa.Table.from_pylist([{"writer": name, "number": number}], SCHEMA)


@contextmanager
def _listings_with_gaps() -> Iterator[None]:
    """A listing may have a commit without the one before it, while others commit. deltalake does not look again."""
    try:
        yield
    except DeltaError as error:
        if "found gap" not in str(error):
            raise
        raise CommitFailedError(str(error)) from error


def by_deltalake(uri: LakeUri, name: str, number: int) -> int | None:
    """Lands once, though the error of a listing may come after the commit: its transaction says so."""
    app_id, options = f"of {name}", options_of(uri)
    with _listings_with_gaps():
        table = DeltaTable(str(uri), storage_options=options)
        if (table.transaction_version(app_id) or 0) < number:
            once = CommitProperties(app_transactions=[Transaction(app_id, number)])
            write_deltalake(table, row(name, number), mode="append", commit_properties=once)
    return None  # it does not say which version it made


def by_lane(uri: LakeUri, name: str, number: int) -> int | None:
    version = land(Snapshot.of(uri), Append(row(name, number)), Marker(name, number), None)
    if version % CHECKPOINT_EVERY == 0:  # without checkpoints the lane would soon refuse the table
        table = open_table(uri, version)
        assert table is not None
        table.create_checkpoint()
    return version


def by_fence(uri: LakeUri, name: str, number: int) -> int | None:
    table = open_table(uri)
    assert table is not None
    if not commit_markers(table, {name: number}, "a race"):
        raise CommitFailedError("another writer was faster")
    return int(table.version()) + 1


KINDS: dict[str, Callable[[LakeUri, str, int], int | None]] = {
    "deltalake": by_deltalake,
    "lane": by_lane,
    "fence": by_fence,
}


def main(kind: str, uri: str, name: str, commits: str) -> None:
    told: Told = {}
    for number in range(1, int(commits) + 1):
        done = False
        while not done:
            with (
                suppress(CommitFailedError, OvertakenError),
                _listings_with_gaps(),
            ):  # nothing landed: others were faster
                version = KINDS[kind](LakeUri(uri), name, number)
                done = True
                if version is not None:
                    assert version not in told
                    told[version] = number
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
