"""Reads a ledger's events. What this process has read or appended already, it does not read again.

A batch asks its ledger nine times, and mostly nobody else has written in between. One look at the log tells that.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from include.lake.appended import rows_from
from include.lake.damage import damaged
from include.lake.delta_tables import Row, open_table
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.uri import LakeUri
from include.lake.writing import writing
from include.protocol.batch import BatchKey
from include.protocol.ledger_events import Event, LedgerSnapshot
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row
from include.protocol.ledger_state import LedgerState

APP_ID = "lakemark-ledger"  # its marker is the sequence of the newest event
SNAPSHOT_ID = "lakemark-ledger-kept"  # its marker is the sequence of the newest snapshot
About = BatchKey | Literal["all"] | None  # see `LedgerRead.of`
_KNOWN_MAX = 32  # ledgers, of which a process keeps what it has read
_known: OrderedDict[LakeUri, LedgerRead] = OrderedDict()


@dataclass(frozen=True)
class LedgerRead:
    """The events that were read from a ledger as of one version, and their state."""

    table: Snapshot | None  # None if there is no ledger yet
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
            TableDamaged: see `opened`. LedgerConflict: the events contradict each other.
        """
        known = _known.pop(uri, None)  # nobody else uses its table from here on
        table, is_as_known = _brought_up(known.table) if known is not None and known.table else (None, False)
        if known is not None and is_as_known and known._tells(about):
            return known
        if (table := table or opened(uri)) is None:
            return cls(None, [], state=fold([]), next_sequence=0)
        is_recent = about is None or (about != "all" and about.generation >= 0)
        if is_recent and (snapshot_at := table.markers.get(SNAPSHOT_ID)) is not None:
            read = cls._of(table, snapshot_at)
            if read._tells(about):
                return read
        return cls._of(table, None)

    @classmethod
    def _of(cls, table: Snapshot, snapshot_at: int | None) -> Self:
        rows = rows_of(table, snapshot_at)
        if snapshot_at is not None:
            rows = [row for row in rows if not row["event"].startswith("backfill")]
        events = [from_row(row) for row in rows]
        last = table.markers.get(APP_ID)  # every append sets it, also for events that are left out here
        if last is None:
            last = rows[-1]["sequence"] if rows else -1
        return cls(table, events, state=fold(events), next_sequence=last + 1)

    def _tells(self, about: About) -> bool:
        if self.state.is_whole or about is None:
            return True
        return about != "all" and about.generation >= 0 and self.state.knows(about)

    def with_appended(self, events: Sequence[Event], after: LedgerState) -> LedgerRead:
        """What is read once events were appended, and its table brought up to them. Args: after: the state after all
        events."""
        known = [*self.events, *events]
        return LedgerRead(self.table, known, state=after, next_sequence=self.next_sequence + len(events))

    def keep(self, uri: LakeUri) -> None:
        """Keeps it for the next reading. Call it when nothing more is done with it.

        A snapshot makes most of the events useless. So nothing is kept beyond one, and what is kept remains small.
        """
        if self.table is None or any(isinstance(event, LedgerSnapshot) for event in self.events[1:]):
            return
        _known[uri] = self
        while len(_known) > _KNOWN_MAX:
            _known.popitem(last=False)


def files_in(uri: LakeUri) -> int:
    """How many files a ledger had when this process last looked, if it has kept what it saw; else how many it has."""
    read = _known.get(uri) or LedgerRead.of(uri, None)
    return 0 if read.table is None else len(read.table.files)


def rows_of(table: Snapshot, least: int | None = None) -> list[Row]:
    """The events of a ledger as rows, in order, with `details` as data. Args: least: sequence; None: all."""
    rows = rows_from(table, "sequence", least).to_pylist()
    return [{**row, "details": json.loads(row["details"])} for row in rows]


def opened(uri: LakeUri) -> Snapshot | None:
    """The table of a ledger as it is now; None if there is none.

    Raises:
        TableDamaged: see `open_table`. RetryableError: see `writing`.
    """
    for tries_left in (1, 0):
        try:
            return Snapshot.of(uri)
        except UnfitError as error:
            if (table := open_table(uri)) is None:
                return None
            if not tries_left:
                raise damaged(uri, str(error)) from error
            with writing("a checkpoint of the ledger", uri):  # its log has none that is read by name
                table.create_checkpoint()
    raise AssertionError("the last try returns or raises")


def _brought_up(table: Snapshot) -> tuple[Snapshot | None, bool]:
    """The table as it is now, and whether it is as it was; None if it has to be opened anew."""
    try:
        return table, not table.brought_up()
    except UnfitError:
        return None, False
