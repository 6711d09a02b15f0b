"""Opens and reads Delta tables without a JVM, and distinguishes a missing table from a damaged one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from include.lake.arrow import table_of
from include.lake.damage import damaged, on_one_line
from include.lake.log_store import commit_file
from include.lake.stores import delta_options, files_at, log_store_of
from include.lake.uri import LakeUri
from include.lake.writing import writing
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject

_FEATURES_OF_COMMITS = {"inCommitTimestamp", "catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"}
_FORGETS = "delta.setTransactionRetentionDuration"
CHECKPOINT_EVERY = 10  # versions; as Delta's own
_COMPACTED_BYTES = 1 << 20  # files of this size stay as they are, so later compactions and readers skip them
OpenedTable = DeltaTable  # a table as of one version
Row = dict[str, Any]  # a row of a query; only the query's author knows its columns and their types
_RECENT_COMMITS = 200  # the commits whose files must not be empty; older ones are in a checkpoint


def open_table(uri: LakeUri, version: int | None = None) -> OpenedTable | None:
    """The table as it is now (or at a version); None if there is none.

    Raises:
        TableDamaged: its log has a gap, or a file that is empty, cut short or not readable.
    """
    for tries_left in (1, 0):
        try:
            table = DeltaTable(str(uri), version=version, storage_options=delta_options(uri))
        except TableNotFoundError as error:
            if any("/" not in file.name and file.name.endswith(".parquet") for file in files_at(uri).list(uri)):
                raise damaged(uri, "data files without a log") from error
            return None
        except (DeltaError, OSError, ValueError) as error:
            if tries_left:  # while others commit, a listing may have a commit without the one before it
                continue
            raise damaged(uri, on_one_line(error)) from error
        _refuse_empty_commits(uri, table.version())
        return table
    raise AssertionError("the last try returns or raises")


def verify_alone(uri: LakeUri) -> None:
    """Checks that a table, which may not exist yet, lies in no other table's folder, and that no other lies in its own.
    VACUUM of the outer table would remove the files of the inner one.

    Raises:
        TerminalError: it lies in the folder of another table, or another table lies in its folder.
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
    """The rows of a query (DataFusion's SQL) over the table. The query calls it `t`.

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    rows: list[Row] = query_arrow(table, sql).to_pylist()
    return rows


def query_arrow(table: OpenedTable, sql: str) -> pa.Table:
    """As `query`, but the rows are an Arrow table.

    It does not use `to_pyarrow_table`: with pyarrow 26, that leaves threads that abort the interpreter when it exits
    (seen here).

    Raises:
        TableDamaged: a data file is missing or not readable.
    """
    try:
        return table_of(QueryBuilder().register("t", table).execute(sql).read_all())
    except Exception as error:  # DataFusion's errors have no class of their own: of an empty file, it is `Exception`
        raise damaged(uri_of(table), on_one_line(error)) from error


def all_rows(table: OpenedTable) -> pa.Table:
    """All rows of a table. Raises TableDamaged: a data file is missing or not readable."""
    return query_arrow(table, "select * from t")


def arrow_schema(table: OpenedTable) -> pa.Schema:
    """The table's columns, as Arrow has them."""
    return pa.schema(table.schema().to_arrow())


def uri_of(table: OpenedTable) -> LakeUri:
    """Where an opened table lies."""
    where = urlparse(table.table_uri)
    of_store = f"{where.scheme}://{where.netloc}" if where.scheme == "s3" else ""
    return LakeUri(f"{of_store}{unquote(where.path)}".rstrip("/"))


def rows_at_most(uri: LakeUri) -> int:
    """How many rows the files of a table hold, including those that deletion vectors hide; 0 if there is no table."""
    table = open_table(uri)
    if table is None:
        return 0
    return sum(n or 0 for n in table_of(table.get_add_actions(flatten=True))["num_records"].to_pylist())


def replace_rows(uri: LakeUri, rows: pa.Table) -> None:
    """Makes a table of these rows. If there is a table, it overwrites all rows in a new version; the table, its id and
    its schema stay. Raises RetryableError: see `writing`."""
    with writing("a table", uri):
        write_deltalake(str(uri), rows, mode="overwrite", storage_options=delta_options(uri))


def delete_rows(table: OpenedTable, condition: str) -> int:
    """Removes the rows for which a condition is true, and returns how many. If another writer is faster, it removes
    none, and the next call does. Raises RetryableError: see `writing`."""
    with suppress(CommitFailedError), writing("a table", uri_of(table)):
        return int(table.delete(condition)["num_deleted_rows"] or 0)
    return 0


def keep_few_files(table: OpenedTable, files_max: int = 100) -> None:
    """Makes one file of many small ones, so that years of small appends stay as quick to read as hours. Changes no row.
    If another writer is faster, a later call does it."""
    if len(table.file_uris()) > files_max:
        with suppress(CommitFailedError):
            table.optimize.compact(target_size=_COMPACTED_BYTES)


def commit_markers(
    table: OpenedTable,
    markers: Mapping[str, int],
    metadata: str,
    operation: str = "LAKEMARK FENCE",
    stamp: str | None = None,
) -> bool:
    """Commits markers (by appId) and metadata without rows, as the next version. False if that version exists or has
    existed, or if the table was lost. Log clean-up frees the name again, but nobody reads a commit under an old name.

    It is a compare-and-swap on the whole table. The commit is written by hand, since deltalake cannot write to a
    clustered table. It has two kinds of action, `commitInfo` and `txn` (Delta protocol, "Commit Provenance Information"
    and "Transaction Identifiers"). Some table features add rules for these actions. Tables with such a feature are
    refused here.

    Args:
        stamp: of the opened version; None: it is not compared.

    Raises:
        TerminalError: the table has such a feature. RetryableError: see `writing`.
    """
    hinders = _FEATURES_OF_COMMITS & set(table.protocol().writer_features or ())
    if hinders:
        raise TerminalError(
            what="a marker cannot be committed without Spark",
            where=table.table_uri,
            expected=f"a table without the features {', '.join(sorted(_FEATURES_OF_COMMITS))}",
            found=", ".join(sorted(hinders)),
            action="drop the feature (ALTER TABLE ... DROP FEATURE), or use a new target table",
        )
    now = time.time_ns() // 1_000_000
    provenance = {
        "timestamp": now,
        "operation": operation,
        "operationParameters": {},
        "isBlindAppend": True,
        "engineInfo": "lakemark",
        "userMetadata": metadata,
    }
    actions: list[JsonObject] = [{"commitInfo": provenance}]
    actions += [{"txn": {"appId": a, "version": v, "lastUpdated": now}} for a, v in markers.items()]
    uri, content = uri_of(table), "".join(json.dumps(a) + "\n" for a in actions)
    with writing("a commit", uri):
        if not log_store_of(uri).create(table.version() + 1, content.encode(), succeeds=stamp):
            return False
    after = open_table(uri)
    return after is not None and all((after.transaction_version(a) or 0) >= v for a, v in markers.items())


def marker_in(table: OpenedTable, app_id: str) -> int | None:
    """The last version that a table holds under an appId; None if there is none.

    Raises:
        TerminalError: there is none now, and the table forgets those that are old.
    """
    found = table.transaction_version(app_id)
    if found is None:
        verify_forgets_no_marker(uri_of(table), table.metadata().configuration)
    return found


def verify_forgets_no_marker(uri: LakeUri, configuration: Mapping[str, str]) -> None:
    """Raises TerminalError: the table forgets markers, which say that a batch is there. It could land twice. Args:
    configuration: the table's properties."""
    if (after := configuration.get(_FORGETS)) is not None:
        raise TerminalError(
            what="a table forgets which batches it has",
            where=str(uri),
            expected=f"a table without the property {_FORGETS}",
            found=after,
            action=f"`ALTER TABLE ... UNSET TBLPROPERTIES ('{_FORGETS}')` on this table, then run the same again (or "
            "rerun the task)",
        )


def _refuse_empty_commits(uri: LakeUri, version: int) -> None:
    """Delta reads an empty commit file as an empty commit. A file system that lost power may leave such files, and the
    rows of that commit would be lost without an error."""
    log = log_store_of(uri)
    for number in range(version, max(-1, version - _RECENT_COMMITS), -1):
        is_empty = log.is_empty(number)
        if is_empty is None:
            return  # log clean-up has removed it and all older ones
        if is_empty:
            raise damaged(uri, f"{commit_file(number)} is empty")
