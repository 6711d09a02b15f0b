"""Opens and reads Delta tables without a JVM, and tells a table that is not there from one that is damaged."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from include.lake.log_store import commit_file
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import RetryableError, TableDamaged, TerminalError
from include.protocol.json_data import JsonObject

_FEATURES_OF_COMMITS = {"inCommitTimestamp", "catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"}
_APPEND_TRIES = 5
_COMPACTED_BYTES = 1 << 20  # a file of that size is left alone: the next compaction, and who reads the newest, skip it
OpenedTable = DeltaTable  # a table as of one version
Row = dict[str, Any]  # of a query: whoever wrote the query knows its columns and their types
_RECENT_COMMITS = 200  # whose files are looked at for emptiness; a checkpoint has taken in what is older


def open_table(uri: LakeUri, version: int | None = None) -> OpenedTable | None:
    """The table as of now (or of a version), None if there is none.

    Raises:
        TableDamaged: its log has a gap, or a file that is empty, cut short or not readable.
    """
    try:
        table = DeltaTable(str(uri), version=version)
    except TableNotFoundError as error:
        if any("/" not in file.name and file.name.endswith(".parquet") for file in files_at(uri).list(uri)):
            raise damaged(uri, "data files without a log") from error
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(uri, _first_line(error)) from error
    _refuse_empty_commits(uri, table.version())
    return table


def verify_alone(uri: LakeUri) -> None:
    """That a table, or a folder that is to become one, has its folder for itself: VACUUM of the outer one of two tables
    removes the files of the inner one.

    Raises:
        TerminalError: it lies in the folder of another table, or another one lies in its folder.
    """
    if (other := next(files_at(uri).tables_around(uri), None)) is not None:
        raise TerminalError(
            what="a table lies in the folder of another one",
            where=str(uri),
            expected="no table in the folders above it, and none in the folders below",
            found=f"a table in {other}",
            action="name another table in the pipeline file, or move one of the two folders to another place",
        )


def query(table: OpenedTable, sql: str) -> list[Row]:
    """Rows of a query (DataFusion's SQL) over the table, which is called `t` there.

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    try:
        rows: list[Row] = query_arrow(table, sql).to_pylist()
    except (DeltaError, OSError, ValueError) as error:
        raise damaged(uri_of(table), _first_line(error)) from error
    return rows


def query_arrow(table: OpenedTable, sql: str) -> pa.Table:
    """The same as an Arrow table.

    Not by `to_pyarrow_table`: with pyarrow 26 it leaves threads that abort the interpreter at its exit (seen here).

    Raises:
        DeltaError, OSError, ValueError: a data file is missing or not readable.
    """
    return pa.table(QueryBuilder().register("t", table).execute(sql).read_all())


def uri_of(table: OpenedTable) -> LakeUri:
    """Where an opened table lies."""
    return LakeUri(unquote(urlparse(table.table_uri).path).rstrip("/"))


def file_of_int96(table: OpenedTable) -> str | None:
    """The first data file that holds timestamps as INT96; None if there is none, as in every table without timestamps.

    Readers on Arrow (deltalake, Polars, pyarrow) take INT96 for nanoseconds of 64 bits: before 1677-09-21 and after
    2262-04-11 they see other times than were written. Reads the footers of all files of the newest version.

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    if '"timestamp"' not in table.schema().to_json():
        return None
    uri = uri_of(table)
    for name in pa.table(table.get_add_actions()).column("path").to_pylist():
        try:
            with files_at(uri).open(uri / unquote(urlparse(name).path)) as file:
                schema = pq.read_metadata(file).schema
        except (OSError, pa.ArrowException) as error:
            raise damaged(uri, _first_line(error)) from error
        if any(schema.column(n).physical_type == "INT96" for n in range(len(schema))):
            return str(name)
    return None


def rows_at_most(uri: LakeUri) -> int:
    """How many rows the files of a table hold, those that deletion vectors hide included; 0 if there is none."""
    table = open_table(uri)
    if table is None:
        return 0
    return sum(n or 0 for n in pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist())


def append(uri: LakeUri, rows: pa.Table, what: str, marker: tuple[str, int] | None = None) -> None:
    """Adds rows to a table of small appends, which is made if there is none, and keeps its files few.

    Args:
        what: is written down, for the error. marker: appId and version that the commit carries, so that it lands once;
            where it has landed, nothing is done.

    Raises:
        RetryableError: the file system refuses it. TableDamaged: see `open_table`.
    """
    for tries_left in reversed(range(_APPEND_TRIES)):
        if marker and (table := open_table(uri)) and table.transaction_version(marker[0]) is not None:
            return
        try:
            markers = [Transaction(*marker)] if marker else None
            properties = CommitProperties(app_transactions=markers)
            write_deltalake(str(uri), rows, mode="append", commit_properties=properties)
            break
        except (DeltaError, OSError) as error:  # of two who create it, or who append at once, one finds the other there
            if not tries_left:
                raise RetryableError(
                    what=f"{what} could not be written down",
                    where=str(uri),
                    expected="a folder that may be written, and room in it",
                    found=" ".join(str(error).split())[:500],
                    action="mend that and do it again (or rerun the task); nothing is done twice",
                ) from error
    if (table := open_table(uri)) is not None:
        keep_few_files(table)


def replace_rows(uri: LakeUri, rows: pa.Table) -> None:
    """Makes a table of these rows, in place of one that is there."""
    write_deltalake(str(uri), rows, mode="overwrite")


def delete_rows(table: OpenedTable, condition: str) -> int:
    """Removes the rows that fulfil a condition; returns how many. A race that is lost to another writer removes none:
    the next time does."""
    with suppress(CommitFailedError):
        return int(table.delete(condition)["num_deleted_rows"] or 0)
    return 0


def keep_few_files(table: OpenedTable, files_max: int = 100) -> None:
    """Makes one file of many small ones: a table of years of small appends stays as quick to read as one of hours.
    Changes no row; a race that is lost to another writer is made up for later."""
    if len(table.file_uris()) > files_max:
        with suppress(CommitFailedError):
            table.optimize.compact(target_size=_COMPACTED_BYTES)


def commit_markers(table: OpenedTable, markers: Mapping[str, int], metadata: str) -> bool:
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
    actions: list[JsonObject] = [{"commitInfo": provenance}]
    actions += [{"txn": {"appId": a, "version": v, "lastUpdated": now}} for a, v in markers.items()]
    uri, content = uri_of(table), "".join(json.dumps(a) + "\n" for a in actions)
    if not log_store_of(uri).create(table.version() + 1, content.encode()):
        return False
    after = open_table(uri)
    return after is not None and all((after.transaction_version(a) or 0) >= v for a, v in markers.items())


def _refuse_empty_commits(uri: LakeUri, version: int) -> None:
    """Delta takes an empty commit file for a commit of nothing. A file system that lost power may leave such files, and
    the rows of that commit would be gone without a word."""
    log = log_store_of(uri)
    for number in range(version, max(-1, version - _RECENT_COMMITS), -1):
        size = log.size(number)
        if size is None:
            return  # log clean-up has removed it and all before it
        if size == 0:
            raise damaged(uri, f"{commit_file(number)} is empty")


def damaged(uri: LakeUri, found: str) -> TableDamaged:
    """The error of a table whose log or files are not whole."""
    return TableDamaged(
        what="a table cannot be read",
        where=str(uri),
        expected="a Delta log without gaps, and every data file that it names",
        found=found,
        action=f"bring the file back from a copy or a snapshot of the disk; without one, {_way_out(uri)}",
    )


def _way_out(uri: LakeUri) -> str:
    if (uri.parent.parent.name, uri.parent.name) == ("_lakemark", "ledger"):
        return f"`lakemark ledger rebuild {uri.name}` makes the ledger anew from the target's own commits"
    return (
        "if it is a target, move its folder away, and `lakemark reset NAME --from earliest --reason ...` (NAME: of its "
        "pipeline) fills a new one from Kafka"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:400]}"
