"""Lands a batch's changes in a table as its next version, without Spark.

The commit succeeds exactly the version that was read. If that version's successor is there, another writer was faster:
everything is read and decided again. So nothing lands over a version that it has not seen.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from include.lake.log_store import Create, succession
from include.lake.log_tail import commit_id
from include.lake.merge.actions import Actions, Change
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import log_store_of
from include.protocol.errors import TableDamaged
from include.protocol.json_data import JsonObject

_TRIES_MAX = 20
_OF_LIBRARIES = (duckdb.Error, pa.ArrowException, ArithmeticError, ValueError)


@dataclass(frozen=True)
class Marker:
    """What says in a table that a batch is there: a number under an appId (Delta protocol, "Transaction
    Identifiers")."""

    app_id: str
    number: int


class MarkerIsThereError(Exception):
    """The table has this marker, or a higher one: the batch has landed, or must not land."""


class OvertakenError(Exception):
    """Other writers were faster every time, or the version that the commit had to succeed has a successor."""


def land(
    table: Snapshot,
    change: Change,
    marker: Marker | None,
    metadata: str | None,
    succeeds: str | None = None,
    beside: Sequence[Marker] = (),
    decided: Callable[[], None] = lambda: None,
    create: Create | None = None,
) -> int:
    """Commits the change, and returns the version that it made. A change that has nothing to say makes none.

    Args:
        table: any version; it is brought up to the newest one. marker: lands with them, so that they land once; None:
            they may land again. metadata: the commit's `userMetadata`; None: it has none. succeeds: the version that
            the commit must follow, and its stamp (`log_store.succession`); None: the newest one, whichever that is.
            beside: other markers that land with it. decided: is called whenever all files are written, and no commit
            names them. create: makes the commit; None: the table's log does, alone.

    Raises:
        MarkerIsThereError, OvertakenError: nothing has landed. UnfitError: Spark has to do it. TableDamaged: see
        `Snapshot.of`. OSError: the store refuses; whether the commit is there is not known.
    """
    if succeeds != succession(table.version, table.stamp):  # else the commit itself finds out what has come since
        table.brought_up()
    for _ in range(_TRIES_MAX):
        if marker is not None and table.markers.get(marker.app_id, -1) >= marker.number:
            raise MarkerIsThereError(f"{marker.app_id} {table.markers[marker.app_id]}")
        if succeeds is not None and succeeds != succession(table.version, table.stamp):
            raise OvertakenError(f"version {table.version}, not {succeeds}")
        try:
            work = change.over(table)
        except TableDamaged:
            if table.brought_up():  # what is missing may belong to files that another writer has replaced since
                continue
            raise
        except _OF_LIBRARIES as error:  # a text that is no UTF-8, or a day after the year 9999, for instance
            raise UnfitError(f"rows that {_library(error)} does not take") from error
        if not work.actions and marker is None:
            return table.version  # nothing to say
        decided()
        markers = [*filter(None, [marker]), *beside]
        if _committed(table, work, markers, metadata, create=create or log_store_of(table.uri).create):
            return table.version + 1
        table.brought_up()
    raise OvertakenError(f"{_TRIES_MAX} times")


def _library(error: Exception) -> str:
    return type(error).__module__.partition(".")[0].lstrip("_")


def _committed(table: Snapshot, work: Actions, markers: Sequence[Marker], metadata: str | None, create: Create) -> bool:
    """Commits as the version after this one. False if that version is another writer's."""
    now, mine = time.time_ns() // 1_000_000, str(uuid.uuid4())
    info = {
        "timestamp": now,
        "operation": work.operation,
        "operationParameters": work.parameters,
        "readVersion": table.version,
        "isolationLevel": "Serializable",
        "isBlindAppend": work.is_blind,
        "operationMetrics": {name: str(value) for name, value in work.metrics.items()},
        "engineInfo": "lakemark",
        "txnId": mine,
        **({} if metadata is None else {"userMetadata": metadata}),
    }
    said: list[JsonObject] = [{"commitInfo": info}]
    said += [{"txn": {"appId": marker.app_id, "version": marker.number, "lastUpdated": now}} for marker in markers]
    content = "".join(f"{_line(action)}\n" for action in (*said, *work.actions))
    try:
        return create(table.version + 1, content.encode(), table.stamp)
    except OSError:
        with suppress(TableDamaged, OSError):  # a store that is away tells nothing
            if commit_id(table.uri, table.version + 1) == mine:  # it is there, and only the answer was lost
                return True
        raise


def _line(action: JsonObject) -> str:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)
