"""The part of maintenance that needs no Spark: measuring a table, and keeping the ledger's files few."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import PurePosixPath

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from include.lake.arrow import table_of
from include.lake.delta_tables import keep_few_files, open_table, query
from include.lake.files import FileInfo
from include.lake.log_cleaning import remove_leftovers
from include.lake.log_store import LOG
from include.lake.merge.deletion_vectors import vector_file
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import delta_options, files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.maintenance import SMALL_BYTES, TableShape

_APPENDED_FILES_MAX = 20
_UNFINISHED_HOURS = 48.0  # what somebody has begun to write and has not ended by then, nobody will


def shape_of(uri: LakeUri, keep_hours: float, spared: Collection[str] = ()) -> TableShape | None:
    """Measures a table as it is now; None if there is none.

    Args:
        keep_hours: how long files that the newest version does not need are kept. spared: files, relative to the table,
            that are kept for longer.

    Raises:
        TableDamaged: see `open_table`.
    """
    table = open_table(uri)
    if table is None:
        return None
    adds = table_of(table.get_add_actions(flatten=True)).select(["size_bytes", "num_records"]).to_pydict()
    sizes, records = adds["size_bytes"], sum(n or 0 for n in adds["num_records"])
    vectors = _vector_files(uri)
    needed = {PurePosixPath(file).name for file in table.file_uris()} | (vectors or set())
    kinds = (".parquet",) if vectors is None else (".parquet", ".bin")
    on_disk = list(_data_files(uri))
    too_old = time.time() - keep_hours * 3600
    [counted] = query(table, "select count(*) as n from t")
    return TableShape(
        files=len(sizes),
        small_files=sum(size < SMALL_BYTES for size in sizes),
        bytes=sum(sizes),
        disk_bytes=sum(file.size for file in on_disk),
        removable_files=sum(
            file.name.endswith(kinds) and PurePosixPath(file.name).name not in needed and file.modified_at < too_old
            for file in on_disk
            if file.name not in spared
        ),
        log_files=log_store_of(uri).entries(),
        records=records,
        deleted=max(0, records - counted["n"]),
    )


def _vector_files(uri: LakeUri) -> set[str] | None:
    """The files of the deletion vectors that the newest version needs; None: not known, so none of them is removable.
    deltalake does not name them."""
    try:
        vectors = [file.get("deletionVector") for file in Snapshot.of(uri).files.values()]
        return {vector_file(uri, vector).name for vector in vectors if vector and vector["storageType"] != "i"}
    except UnfitError:
        return None


def keep_appended(uri: LakeUri, keep_hours: float) -> list[str]:
    """Maintains a table that is written without Spark (a ledger, the results of suites). It compacts many small files,
    and removes files and log entries that are older than `keep_hours` and no longer needed. Returns what it did.
    Changes no row."""
    table = open_table(uri)
    if table is None:
        return []
    done = []
    with suppress(DeltaError):  # a writer was faster: the next run does it
        if len(table.file_uris()) > _APPENDED_FILES_MAX:
            keep_few_files(table, _APPENDED_FILES_MAX)
            done.append("compacted")
        table = DeltaTable(str(uri), storage_options=delta_options(uri))
        table.create_checkpoint()
        table.cleanup_metadata()
        remove_leftovers(uri)
        # The log forgets removed files sooner than that, so `full` looks for them in the folder.
        removed = table.vacuum(retention_hours=int(keep_hours), dry_run=False, full=True)
        done += ["checkpoint"] + ([f"removed {len(removed)} files"] if removed else [])
    return done


def forget_unfinished(uri: LakeUri) -> list[str]:
    """Removes what writers have begun in a table's folder and never ended, where the store keeps such things. Returns
    what it did."""
    count = files_at(uri).forget_unfinished(uri, _UNFINISHED_HOURS)
    return [f"removed {count} unfinished uploads"] if count else []


def _data_files(table: LakeUri) -> Iterator[FileInfo]:
    """Data files and deletion vectors of all versions that are still there."""
    for file in files_at(table).list(table):
        if file.name.endswith((".parquet", ".bin")) and LOG not in file.name.split("/"):
            yield file
