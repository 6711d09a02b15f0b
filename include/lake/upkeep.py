"""Upkeep of tables that needs no Spark: what a table is made of, the ledger's own files, tables that nobody needs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from include.lake.delta_tables import keep_few_files, open_table, query
from include.pipeline_file.tables import Tables
from include.protocol.ledger_events import LedgerState
from include.protocol.maintenance import SMALL_BYTES, TableShape

_APPENDED_FILES_MAX = 20


def shape_of(path: str, keep_hours: float) -> TableShape | None:
    """What a table is made of now, None if there is none.

    Args:
        keep_hours: how long files are kept that the newest version does not need.

    Raises:
        TableDamaged: see `open_table`.
    """
    table = open_table(path)
    if table is None:
        return None
    adds = pa.table(table.get_add_actions(flatten=True)).select(["size_bytes", "num_records"]).to_pydict()
    sizes, records = adds["size_bytes"], sum(n or 0 for n in adds["num_records"])
    needed = {Path(uri).name for uri in table.file_uris()}
    on_disk = [(file, file.stat()) for file in _data_files(Path(path))]
    too_old = time.time() - keep_hours * 3600
    [counted] = query(table, "select count(*) as n from t")
    return TableShape(
        files=len(sizes),
        small_files=sum(size < SMALL_BYTES for size in sizes),
        bytes=sum(sizes),
        disk_bytes=sum(stat.st_size for _, stat in on_disk),
        removable_files=sum(
            file.suffix == ".parquet" and file.name not in needed and stat.st_mtime < too_old for file, stat in on_disk
        ),
        log_files=sum(1 for _ in os.scandir(Path(path, "_delta_log"))),
        records=records,
        deleted=max(0, records - counted["n"]),
    )


def keep_appended(path: str, keep_hours: float) -> list[str]:
    """Compacts a table that is written without Spark (a ledger, what suites said) if it has many small files, removes
    files and log entries that are older than `keep_hours` and no longer needed. Returns what was done; changes no row.
    """
    table = open_table(path)
    if table is None:
        return []
    done = []
    with suppress(DeltaError):  # a writer was faster: the next time
        if len(table.file_uris()) > _APPENDED_FILES_MAX:
            keep_few_files(table, _APPENDED_FILES_MAX)
            done.append("compacted")
        table = DeltaTable(path)
        table.create_checkpoint()
        table.cleanup_metadata()
        # The log forgets removed files sooner than that; `full` finds them in the folder.
        removed = table.vacuum(retention_hours=int(keep_hours), dry_run=False, full=True)
        done += ["checkpoint"] + ([f"removed {len(removed)} files"] if removed else [])
    return done


def remove_spent_tables(tables: Tables, state: LedgerState) -> list[str]:
    """Removes the tables that backfills made and that nobody will read: swapped ones, whose rows the target has,
    cancelled ones, and the records of replays that have ended. Returns their paths."""
    ended = [record for record in state.backfills.values() if record.outcome is not None]
    swapped = [tables.target_of(r.backfill) for r in ended if r.backfill.into == "new" and r.outcome != "applied"]
    paths = [*swapped, *(tables.records_of(record.backfill) for record in ended)]
    found = [path for path in paths if path is not None and Path(path).exists()]
    for path in found:
        shutil.rmtree(path)
    return found


def _data_files(folder: Path) -> Iterator[Path]:
    """Data files and deletion vectors, of every version that is still there."""
    for suffix in ("*.parquet", "*.bin"):
        yield from (file for file in folder.rglob(suffix) if "_delta_log" not in file.parts)
