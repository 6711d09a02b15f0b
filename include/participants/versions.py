"""Finds what a table was at a checkpoint: the version, and whether all of its files are still there."""

from __future__ import annotations

from include.lake.carrying import carry
from include.lake.damage import on_one_line
from include.lake.merge.frozen import names_of, thawed
from include.lake.merge.past import Frozen, version_at
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import NoLogError, UnfitError
from include.lake.stores import files_at
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from include.protocol.participants import Position, Where


def whole_version(
    uri: LakeUri, position: Position, where: Where, frozen: Frozen, spare: LakeUri | None = None
) -> Snapshot | None:
    """The version, with all of its files; None: no batch had written the table yet.

    Args:
        uri: where the table lies. where: names it in an error. frozen: where its versions are frozen, if they are.
            spare: a folder that has copies of files under the same names.

    Raises:
        TerminalError: it is gone, or the table is another one now, or has what only Spark can read.
    """
    past = version_of(uri, position, where, frozen)
    if past is not None:
        verify_whole(past, where, spare)
    return past


def version_of(uri: LakeUri, position: Position, where: Where, frozen: Frozen) -> Snapshot | None:
    """The same, whether its files are there or not."""
    if position.version is None:
        return None
    log = TableLog.open(uri)
    id_ = None if log is None else log.table_id
    if log is None or position.identity not in (None, id_):
        found = "no table" if log is None else f"table id {id_}"
        raise _gone(where, uri, f"table id {position.identity}", found)
    try:
        past = version_at(uri, position.version, frozen)
    except UnfitError as error:
        raise unfit(where, uri, error) from error
    if past is None:
        raise _gone(where, uri, f"version {position.version} in its log", "log clean-up has removed it")
    return past


def copied_version(uri: LakeUri, where: Where, copy: LakeUri) -> Snapshot:
    """The rows of a frozen table, as a version of another one. Args: copy: that table, which has files of its own.

    Raises:
        TerminalError: it is gone, or a file of it is.
    """
    try:
        past = thawed(copy, uri)
    except NoLogError as error:
        raise _gone(where, copy, "the copy of a table", "none") from error
    except UnfitError as error:
        raise unfit(where, copy, error) from error
    verify_whole(past, where, copy)
    return past


def verify_whole(past: Snapshot, where: Where, spare: LakeUri | None = None) -> None:
    """Checks that all files of a version are there, or in a folder of copies. Raises TerminalError: one is not."""
    gone = _gone_from(past)
    if gone and spare is not None:
        gone -= {file.name for file in files_at(spare).list(spare)}
    if gone:
        raise _gone(where, past.uri, f"every file of version {past.version}", f"no {min(gone)}")


def bring_files_back(past: Snapshot, where: Where, spare: LakeUri | None) -> None:
    """Gives a version the files back that are only in a folder of copies. Raises as `verify_whole`."""
    verify_whole(past, where, spare)
    if spare is not None:
        carry(_gone_from(past), spare, past.uri)
        verify_whole(past, where)


def _gone_from(past: Snapshot) -> set[str]:
    return names_of(past).keys() - {file.name for file in files_at(past.uri).list(past.uri)}


def unfit(where: Where, uri: LakeUri, error: UnfitError) -> TerminalError:
    """The error for a table that only Spark can write."""
    return TerminalError(
        what="Lakemark cannot bring this table back, or keep what it was: it has what only Spark can write",
        where=f"{where}, {uri}",
        expected="a table as Lakemark makes it, and its log with a checkpoint in one file",
        found=on_one_line(error),
        action="drop what it has (ALTER TABLE ... DROP FEATURE, or UNSET TBLPROPERTIES), then run the same command "
        "again; nothing was changed",
    )


def _gone(where: Where, uri: LakeUri, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="what a table was is no longer there, so nobody can go back to it",
        where=f"{where}, {uri}",
        expected=expected,
        found=found,
        action="nothing was changed: choose another checkpoint or savepoint (`lakemark checkpoint list "
        f"{where.pipeline}` says which can be restored), or bring the files back from a copy",
    )
