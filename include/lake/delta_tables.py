"""Opens and reads Delta tables without a JVM, and tells a table that is not there from one that is damaged."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from include.protocol.errors import RetryableError, TableDamaged, TerminalError

_FEATURES_OF_COMMITS = {"inCommitTimestamp", "catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"}
_LOG = "_delta_log"
_APPEND_TRIES = 5
_COMPACTED_BYTES = 1 << 20  # a file of that size is left alone: the next compaction, and who reads the newest, skip it
_RECENT_COMMITS = 200  # whose files are looked at for emptiness; a checkpoint has taken in what is older


def open_table(path: str, version: int | None = None) -> DeltaTable | None:
    """The table as of now (or of a version), None if there is none.

    Raises:
        TableDamaged: its log has a gap, or a file that is empty, cut short or not readable.
    """
    try:
        table = DeltaTable(path, version=version)
    except TableNotFoundError as error:
        if next(Path(path).glob("*.parquet"), None) is not None:
            raise damaged(path, "data files without a log") from error
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(path, _first_line(error)) from error
    _refuse_empty_commits(path, table.version())
    return table


def verify_alone(path: str) -> None:
    """That a table, or a folder that is to become one, has its folder for itself: VACUUM of the outer one of two tables
    removes the files of the inner one.

    Raises:
        TerminalError: it lies in the folder of another table, or another one lies in its folder.
    """
    folder = Path(path).resolve()
    others = chain((above for above in folder.parents if (above / _LOG).is_dir()), _tables_below(folder))
    if (other := next(others, None)) is not None:
        raise TerminalError(
            what="a table lies in the folder of another one",
            where=str(folder),
            expected="no table in the folders above it, and none in the folders below",
            found=f"a table in {other}",
            action="name another table in the pipeline file, or move one of the two folders to another place",
        )


def _tables_below(folder: Path) -> Iterator[Path]:
    for root, folders, _ in os.walk(folder):
        if _LOG in folders:
            folders.remove(_LOG)
            if Path(root) != folder:
                yield Path(root)


def query(table: DeltaTable, sql: str) -> list[dict[str, Any]]:
    """Rows of a query over the table, which is called `t` there.

    Not by `to_pyarrow_table`: with pyarrow 26 it leaves threads that abort the interpreter at its exit (seen here).

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    try:
        return pa.table(QueryBuilder().register("t", table).execute(sql).read_all()).to_pylist()
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(table.table_uri, _first_line(error)) from error


def file_of_int96(table: DeltaTable) -> str | None:
    """The first data file that holds timestamps as INT96; None if there is none, as in every table without timestamps.

    Readers on Arrow (deltalake, Polars, pyarrow) take INT96 for nanoseconds of 64 bits: before 1677-09-21 and after
    2262-04-11 they see other times than were written. Reads the footers of all files of the newest version.

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    if '"timestamp"' not in table.schema().to_json():
        return None
    folder = Path(unquote(urlparse(table.table_uri).path))
    for name in pa.table(table.get_add_actions()).column("path").to_pylist():
        try:
            schema = pq.read_metadata(folder / unquote(urlparse(name).path)).schema
        except (OSError, pa.ArrowException) as error:
            raise damaged(table.table_uri, _first_line(error)) from error
        if any(schema.column(n).physical_type == "INT96" for n in range(len(schema))):
            return name
    return None


def rows_at_most(path: str) -> int:
    """How many rows the files of a table hold, those that deletion vectors hide included; 0 if there is none."""
    table = open_table(path)
    if table is None:
        return 0
    return sum(n or 0 for n in pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist())


def append(path: str, rows: pa.Table, what: str, marker: tuple[str, int] | None = None) -> None:
    """Adds rows to a table of small appends, which is made if there is none, and keeps its files few.

    Args:
        what: is written down, for the error. marker: appId and version that the commit carries, so that it lands once;
            where it has landed, nothing is done.

    Raises:
        RetryableError: the file system refuses it. TableDamaged: see `open_table`.
    """
    for tries_left in reversed(range(_APPEND_TRIES)):
        if marker and (table := open_table(path)) and table.transaction_version(marker[0]) is not None:
            return
        try:
            markers = [Transaction(*marker)] if marker else None
            write_deltalake(path, rows, mode="append", commit_properties=CommitProperties(app_transactions=markers))
            break
        except (DeltaError, OSError) as error:  # of two who create it, or who append at once, one finds the other there
            if not tries_left:
                raise RetryableError(
                    what=f"{what} could not be written down",
                    where=path,
                    expected="a folder that may be written, and room in it",
                    found=" ".join(str(error).split())[:500],
                    action="mend that and do it again (or rerun the task); nothing is done twice",
                ) from error
    if (table := open_table(path)) is not None:
        keep_few_files(table)


def keep_few_files(table: DeltaTable, files_max: int = 100) -> None:
    """Makes one file of many small ones: a table of years of small appends stays as quick to read as one of hours.
    Changes no row; a race that is lost to another writer is made up for later."""
    if len(table.file_uris()) > files_max:
        with suppress(CommitFailedError):
            table.optimize.compact(target_size=_COMPACTED_BYTES)


def commit_markers(table: DeltaTable, markers: Mapping[str, int], metadata: str) -> bool:
    """Commits markers (by appId) and metadata without rows, as the very next version; False if there is one already, or
    was (log clean-up makes its name free again, and nobody reads what is written under it then).

    A compare-and-swap on the whole table. Written by hand, since deltalake writes no table that is clustered: two kinds
    of action, `commitInfo` and `txn`, of which no table feature asks anything but those that are refused here (Delta
    protocol, "Transaction Identifiers" and "Commit Provenance Information").

    Raises:
        TerminalError: the table has such a feature.
    """
    refused = _FEATURES_OF_COMMITS & set(table.protocol().writer_features or ())
    if refused:
        raise TerminalError(
            what="a marker cannot be committed without Spark",
            where=table.table_uri,
            expected=f"a table without the features {', '.join(sorted(_FEATURES_OF_COMMITS))}",
            found=", ".join(sorted(refused)),
            action="drop the feature (ALTER TABLE ... DROP FEATURE), or use a new target table",
        )
    now = time.time_ns() // 1_000_000
    provenance = {
        "timestamp": now,
        "operation": "LAKEMARK FENCE",
        "operationParameters": {},
        "isBlindAppend": True,
        "engineInfo": "lakemark",
        "userMetadata": metadata,
    }
    actions: list[dict[str, Any]] = [{"commitInfo": provenance}]
    actions += [{"txn": {"appId": a, "version": v, "lastUpdated": now}} for a, v in markers.items()]
    log = Path(unquote(urlparse(table.table_uri).path), "_delta_log")
    if not _create(log / commit_file(table.version() + 1), "".join(json.dumps(a) + "\n" for a in actions)):
        return False
    now = open_table(str(log.parent))
    return now is not None and all((now.transaction_version(a) or 0) >= v for a, v in markers.items())


def _create(path: Path, text: str) -> bool:
    """Writes a file that is there in full or not at all; False if there is one of that name (a hard link decides)."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
    try:
        with temporary.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _refuse_empty_commits(path: str, version: int) -> None:
    """Delta takes an empty commit file for a commit of nothing. A file system that lost power may leave such files, and
    the rows of that commit would be gone without a word."""
    for number in range(version, max(-1, version - _RECENT_COMMITS), -1):
        name = commit_file(number)
        try:
            if os.stat(f"{path}/_delta_log/{name}").st_size == 0:  # noqa: PTH116 - hundreds of them, each time
                raise damaged(path, f"{name} is empty")
        except FileNotFoundError:
            return  # log clean-up has removed it and all before it


def commit_file(version: int) -> str:
    """What the file of a commit is called (Delta protocol, "Delta Log Entries")."""
    return f"{version:020}.json"


def damaged(path: str, found: str) -> TableDamaged:
    """The error of a table whose log or files are not whole."""
    return TableDamaged(
        what="a table cannot be read",
        where=path,
        expected="a Delta log without gaps, and every data file that it names",
        found=found,
        action=f"bring the file back from a copy or a snapshot of the disk; without one, {_way_out(path)}",
    )


def _way_out(path: str) -> str:
    table = PurePath(path)
    if table.parts[-3:-1] == ("_lakemark", "ledger"):
        return f"`lakemark ledger rebuild {table.name}` makes the ledger anew from the target's own commits"
    return (
        "if it is a target, move its folder away, and `lakemark reset NAME --from earliest --reason ...` (NAME: of its "
        "pipeline) fills a new one from Kafka"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:400]}"
