"""The ledger's table: one append-only Delta table per pipeline, one row per event, written without a JVM.

Columns: sequence bigint (0, 1, 2 ...), recorded_at timestamp (UTC), generation bigint, batch_id bigint, event string,
attempt_id string, details string (JSON). Every append carries Delta's `txn` action with the ledger's own appId: of
two writers that read the same state, Delta lets one commit and refuses the other, who reads again and decides anew.
That makes the append a compare-and-swap on the whole state, and a plan put-if-absent (I1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from include.protocol.errors import RetryableError
from include.protocol.ledger_events import Event, LedgerState, fold, from_row, to_row

SCHEMA = pa.schema(
    [
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("recorded_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("generation", pa.int64(), nullable=False),
        pa.field("batch_id", pa.int64(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("attempt_id", pa.string()),
        pa.field("details", pa.string(), nullable=False),
    ]
)
_APP_ID = "lakemark-ledger"
_RACES_MAX = 20
_FILES_MAX = 100  # every append is a small file; above this many they become one

Decide = Callable[[LedgerState], Sequence[Event]]


@dataclass(frozen=True)
class Ledger:
    path: str

    def state(self) -> LedgerState:
        """The fold of all events; an empty state if there is no ledger yet."""
        try:
            table = DeltaTable(self.path)
        except TableNotFoundError:
            return LedgerState()
        return fold(from_row(row) for row in _rows(table))

    def rows(self) -> list[dict]:
        """All events as rows, `details` as data, in order."""
        try:
            return _rows(DeltaTable(self.path))
        except TableNotFoundError:
            return []

    def append(self, decide: Decide) -> LedgerState:
        """Records what `decide` returns for the present state, and returns the state after it.

        `decide` is called again with the new state whenever another writer was faster; it must not write. The state
        is folded before anything is written, so an event that cannot follow is refused, not recorded.

        Raises:
            RetryableError: other writers were faster every time.
            LedgerConflict: the events cannot follow.
        """
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            self.path, SCHEMA, mode="ignore", configuration={"delta.appendOnly": "true"}, name="lakemark ledger"
        )
        for _ in range(_RACES_MAX):
            table = DeltaTable(self.path)
            rows = _rows(table)
            past = [from_row(row) for row in rows]
            state = fold(past)
            events = decide(state)
            if not events:
                return state
            after = fold([*past, *events])
            try:
                self._commit(table, len(rows), events)
            except CommitFailedError as error:
                if "oncurrent" not in str(error):
                    raise
                continue
            self._compact(table)
            return after
        raise RetryableError(
            what="other writers of the ledger were faster",
            where=self.path,
            expected=f"one commit in {_RACES_MAX} tries",
            found="none",
            action="try again; if it persists, look for a process that writes this ledger in a loop",
        )

    @staticmethod
    def _commit(table: DeltaTable, sequence: int, events: Sequence[Event]) -> None:
        now = datetime.now(UTC)
        rows = [
            {"sequence": sequence + n, "recorded_at": now, **row, "details": json.dumps(row["details"])}
            for n, row in enumerate(map(to_row, events))
        ]
        # The snapshot in `table` is what was decided on: the commit is checked against everything after it.
        write_deltalake(
            table,
            pa.Table.from_pylist(rows, SCHEMA),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(_APP_ID, sequence + len(events) - 1)]),
        )

    @staticmethod
    def _compact(table: DeltaTable) -> None:
        """Keeps a ledger of years as quick to read as one of hours. Changes no row; a lost race is made up later."""
        if len(table.file_uris()) > _FILES_MAX:
            with suppress(CommitFailedError):
                table.optimize.compact()


def _rows(table: DeltaTable) -> list[dict]:
    # Not `to_pyarrow_table`: with pyarrow 26 it leaves threads that abort the interpreter at its exit (seen here).
    query = QueryBuilder().register("ledger", table).execute("select * from ledger order by sequence")
    rows = pa.table(query.read_all()).to_pylist()
    return [{**row, "details": json.loads(row["details"])} for row in rows]
