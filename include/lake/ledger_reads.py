"""Reads a ledger's events. What this process has read or appended already, it does not read again.

A batch asks its ledger nine times, and mostly nobody else has written in between. One look at the names in the log
tells that. Then the table need not be opened and queried, which takes far longer.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from deltalake import DeltaTable

from include.lake.delta_tables import Row, open_table, query
from include.lake.log_tail import LogTail
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.protocol.batch import BatchKey
from include.protocol.ledger_events import Event, LedgerSnapshot
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row
from include.protocol.ledger_state import LedgerState

APP_ID = "lakemark-ledger"  # its marker is the sequence of the newest event
SNAPSHOT_ID = "lakemark-ledger-kept"  # its marker is the sequence of the newest snapshot
About = BatchKey | Literal["all"] | None  # see `LedgerRead.of`
_Commit = tuple[int, str | None]  # version and stamp: see `LogStore.stamp`
_KNOWN_MAX = 32  # ledgers, of which a process keeps what it has read
_known: OrderedDict[LakeUri, LedgerRead] = OrderedDict()


@dataclass(frozen=True)
class LedgerRead:
    """The events that were read from a ledger as of one version, and their state."""

    table: DeltaTable | None  # None if there is no ledger yet
    commit: _Commit | None  # the newest; None if it cannot be told for certain
    events: list[Event]
    state: LedgerState
    next_sequence: int

    @classmethod
    def of(cls, uri: LakeUri, about: About) -> LedgerRead:
        """The ledger as it is now.

        Args:
            about: what must be known: "all" events; or what planning and settling need, which is in the events from
                the newest snapshot on; or that, and a batch.

        Raises:
            TableDamaged: see `open_table`. LedgerConflict: the events contradict each other.
        """
        newest = _newest(uri)  # before the table is opened: another one may take its place
        known = _known.pop(uri, None)  # nobody else uses the opened table from here on
        if known is not None and newest is not None and known.commit == newest and known._tells(about):
            return known
        if (table := open_table(uri)) is None:
            return cls(None, None, [], state=fold([]), next_sequence=0)
        commit = newest if newest is not None and newest[0] == table.version() else None
        is_recent = about is None or (about != "all" and about.generation >= 0)
        if is_recent and (snapshot_at := table.transaction_version(SNAPSHOT_ID)) is not None:
            read = cls._of(table, commit, f"where sequence >= {snapshot_at} and event not like 'backfill%'")
            if read._tells(about):
                return read
        return cls._of(table, commit, "")

    @classmethod
    def _of(cls, table: DeltaTable, commit: _Commit | None, condition: str) -> Self:
        rows = rows_of(table, condition)
        events = [from_row(row) for row in rows]
        last = table.transaction_version(APP_ID)  # every append sets it, also for events that are left out here
        if last is None:
            last = rows[-1]["sequence"] if rows else -1
        return cls(table, commit, events, state=fold(events), next_sequence=last + 1)

    def _tells(self, about: About) -> bool:
        if self.state.is_whole or about is None:
            return True
        return about != "all" and about.generation >= 0 and self.state.knows(about)

    def with_appended(self, uri: LakeUri, events: Sequence[Event], after: LedgerState) -> LedgerRead:
        """What is read once its opened table has appended events. Args: after: the state after all events."""
        newest, table = _newest(uri), self.table
        commit = newest if table is not None and newest is not None and newest[0] == table.version() else None
        known = [*self.events, *events]
        return LedgerRead(table, commit, known, state=after, next_sequence=self.next_sequence + len(events))

    def keep(self, uri: LakeUri) -> None:
        """Keeps it for the next reading. Call it when nothing more is done with it.

        A snapshot makes most of the events useless. So nothing is kept beyond one, and what is kept remains small.
        """
        if self.commit is None or any(isinstance(event, LedgerSnapshot) for event in self.events[1:]):
            return
        _known[uri] = self
        while len(_known) > _KNOWN_MAX:
            _known.popitem(last=False)


def rows_of(table: DeltaTable, condition: str = "") -> list[Row]:
    """The events of an opened ledger as rows, in order, with `details` as data."""
    rows = query(table, f"select * from t {condition} order by sequence")
    return [{**row, "details": json.loads(row["details"])} for row in rows]


def _newest(uri: LakeUri) -> _Commit | None:
    tail = LogTail.of(uri)
    return None if tail is None else (tail.version, log_store_of(uri).stamp(tail.version))
