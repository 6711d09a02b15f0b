"""Finds the kind of store that serves a URI.

Only this module names all kinds. `shared_folder` names one, since only POSIX file systems have what it needs.
"""

from __future__ import annotations

from include.lake.files import Files
from include.lake.log_store import LogStore
from include.lake.posix import PosixFiles, PosixLogStore
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError

_FILES = {"file": PosixFiles()}
_LOG_STORES = {"file": PosixLogStore}


def files_at(uri: LakeUri) -> Files:
    """The files of the store that a URI lies in.

    Raises:
        TerminalError: no kind of store has its scheme.
    """
    _verify_known(uri)
    return _FILES[uri.scheme]


def log_store_of(table: LakeUri) -> LogStore:
    """The log of a table.

    Raises:
        TerminalError: no kind of store has its scheme.
    """
    _verify_known(table)
    return _LOG_STORES[table.scheme](table)


def _verify_known(uri: LakeUri) -> None:
    if uri.scheme not in _LOG_STORES:
        raise TerminalError(
            what="there is no store of this kind",
            where=str(uri),
            expected="a path on a local or shared file system",
            found=f"the scheme {uri.scheme}",
            action="set LAKEMARK_LAKE to an absolute path",
        )
