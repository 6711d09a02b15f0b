"""Finds the kind of store that serves a URI.

Only this module names all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from include.lake.files import Files
from include.lake.lines import Lines
from include.lake.log_store import LogStore
from include.lake.posix.files import PosixFiles
from include.lake.posix.lines import PosixLines
from include.lake.posix.log_store import PosixLogStore
from include.lake.s3.connection import delta_options as _delta_options
from include.lake.s3.connection import forget as _forget
from include.lake.s3.connection import requests as _requests
from include.lake.s3.connection import spark_options as _spark_options
from include.lake.s3.files import S3Files
from include.lake.s3.lines import S3Lines
from include.lake.s3.log_store import S3LogStore
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError

_FILES: dict[str, Files] = {"file": PosixFiles(), "s3": S3Files()}
_LINES: dict[str, Callable[[LakeUri], Lines]] = {"file": PosixLines, "s3": S3Lines}
_LOG_STORES: dict[str, Callable[[LakeUri], LogStore]] = {"file": PosixLogStore, "s3": S3LogStore}


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


def lines_at(uri: LakeUri) -> Lines:
    """The lines under a URI.

    Raises:
        TerminalError: no kind of store has its scheme.
    """
    _verify_known(uri)
    return _LINES[uri.scheme](uri)


def delta_options(uri: LakeUri) -> dict[str, str] | None:
    """What deltalake has to be told about the store of a table. It may hold secrets that expire: ask whenever a table
    is opened, and keep it nowhere."""
    return _delta_options() if uri.scheme == "s3" else None


def spark_options(lake: LakeUri) -> dict[str, str]:
    """Spark's options for a lake. They hold no secret."""
    return _spark_options() if lake.scheme == "s3" else {}


def requests_sent() -> dict[str, int]:
    """How many requests this process and its jobs have sent to a store that counts them, by operation: also those that
    were sent again. (What deltalake and Spark send is not among them: neither tells it.)"""
    return dict(sorted(_requests.items()))


def connect_anew() -> None:
    """For a fork: connections, and the count of what they have sent, are its parent's."""
    _forget()
    _requests.clear()


def add_requests(of_job: Mapping[str, int]) -> None:
    """Adds the requests that a job has sent."""
    _requests.update(of_job)


def _verify_known(uri: LakeUri) -> None:
    if uri.scheme not in _LOG_STORES:
        raise TerminalError(
            what="there is no store of this kind",
            where=str(uri),
            expected="a path on a local or shared file system, or s3://BUCKET/PREFIX",
            found=f"the scheme {uri.scheme}",
            action="set LAKEMARK_LAKE to an absolute path, or to s3://BUCKET/PREFIX",
        )
