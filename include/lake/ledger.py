"""The ledger's table: one append-only Delta table per pipeline, one row per event, written without a JVM.

Columns: sequence bigint (0, 1, 2 ...), recorded_at timestamp (UTC), generation bigint, batch_id bigint, event string,
attempt_id string, details string (JSON). Every append carries Delta's `txn` action with the ledger's own appId. If two
writers read the same state, Delta lets one of them commit and refuses the other, which reads again and decides again.
So an append is a compare-and-swap on the whole state, and a plan is put-if-absent (I1).

After every few batches the state itself is recorded. Planning and settling read from there on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from include.lake.delta_tables import Row, keep_few_files, open_table, query
from include.lake.ledger_reads import APP_ID, SNAPSHOT_ID, About, LedgerRead, rows_of
from include.lake.log_tail import LogTail
from include.lake.stores import delta_options, files_at, log_store_of
from include.lake.uri import LakeUri
from include.lake.writing import refused, writing
from include.protocol.batch import BatchKey
from include.protocol.errors import RetryableError
from include.protocol.ledger_events import BatchCommitted, Event, LedgerSnapshot
from include.protocol.ledger_fold import fold
from include.protocol.ledger_rows import from_row, to_row
from include.protocol.ledger_state import LedgerState

LEDGER_SCHEMA = pa.schema(
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
_WHAT = "the ledger"
_RACES_MAX = 20
# Texts of deltalake's error when another writer was faster. That writer has appended; or it has created the table too
# (two processes may both create it, and the later creation changes its metadata); or there were so many commits that
# the log has forgotten the version that the decision was based on.
_OVERTAKEN = ("oncurrent", "changed since last commit", "Invalid table version")
_FILES_MAX = 100  # every append makes a small file; above this number they become one
SNAPSHOT_EVERY = 5  # batches
# The table has very many small commits. Opening it and committing to it both list its log, and must stay cheap. Nobody
# reads older versions, and a writer that has slept for longer decides again.
CONFIGURATION = {
    "delta.appendOnly": "true",
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 10 minutes",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}

Decide = Callable[[LedgerState], Sequence[Event]]


@dataclass(frozen=True)
class Ledger:
    """The ledger of one pipeline.

    Args:
        uri: where its table lies, or will lie.
    """

    uri: LakeUri

    def state(self) -> LedgerState:
        """The state after all events; an empty state if there is no ledger yet."""
        return fold(self.events())

    def recent(self, key: BatchKey | None = None) -> LedgerState:
        """The state that planning and settling need: from the newest snapshot on, if that state knows the batch. Its
        cost does not grow with the ledger."""
        read = LedgerRead.of(self.uri, key)
        read.keep(self.uri)
        return read.state

    def events(self) -> list[Event]:
        """All events, in order."""
        return [from_row(row) for row in self.rows()]

    def changed_at(self) -> int | None:
        """When its log last changed, in ns since 1970; None if there is no ledger yet. Far cheaper than the state."""
        return log_store_of(self.uri).changed_at()

    def rows(self) -> list[Row]:
        """All events as rows, in order, with `details` as data."""
        table = open_table(self.uri)
        return rows_of(table) if table is not None else []

    def append(self, decide: Decide, about: About = "all") -> LedgerState:
        """Records what `decide` returns for the current state, and returns the state after it.

        If another writer was faster, `decide` is called again with the new state; it must not write. The events are
        folded before anything is written, so an event that cannot follow is refused and not recorded.

        Args:
            about: what `decide` needs to know: see `LedgerRead.of`.

        Raises:
            RetryableError: other writers were faster every time, or the file system refused the write.
            LedgerConflict: the events cannot follow. TableDamaged: see `open_table`.
        """
        for _ in range(_RACES_MAX):
            read = LedgerRead.of(self.uri, about)
            events = decide(read.state)
            if not events:
                read.keep(self.uri)
                return read.state
            after = fold([*read.events, *events])
            if _wants_snapshot(events):
                events = [*events, after.snapshot()]
            if read.table is None:
                self._create()
                continue  # another writer may have created it too, and recorded something
            if self._commit(read.table, read.next_sequence, events):
                read.with_appended(self.uri, events, after).keep(self.uri)
                return after
        raise RetryableError(
            what="other writers of the ledger were faster",
            where=str(self.uri),
            expected=f"one commit in {_RACES_MAX} tries",
            found="none",
            action="try again; if it persists, look for a process that writes this ledger in a loop",
        )

    def keep_few_files(self) -> None:
        """Makes one file of many. It is slow: call it where nobody waits."""
        read = LedgerRead.of(self.uri, None)
        if read.table is not None:
            keep_few_files(read.table, _FILES_MAX)
            read.keep(self.uri)

    def set_aside(self) -> LakeUri | None:
        """Moves a ledger away before a rebuild. Returns where it lies now; None if there was none."""
        if not files_at(self.uri).exists(self.uri):
            return None
        aside = self.uri.beside(f"{self.uri.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
        with writing("the ledger's new name", aside):
            files_at(self.uri).move(self.uri, aside)
        return aside

    def _create(self) -> None:
        with suppress(CommitFailedError), writing(_WHAT, self.uri):  # or another writer has just created it
            files_at(self.uri).make_folder(self.uri.parent)
            DeltaTable.create(
                str(self.uri),
                LEDGER_SCHEMA,
                mode="ignore",
                configuration=CONFIGURATION,
                name="lakemark ledger",
                storage_options=delta_options(self.uri),
            )

    def _commit(self, table: DeltaTable, sequence: int, events: Sequence[Event]) -> bool:
        """Appends the events. False if another writer was faster."""
        now = datetime.now(UTC)
        rows = [
            {"sequence": sequence + n, "recorded_at": now, **row, "details": json.dumps(row["details"])}
            for n, row in enumerate(map(to_row, events))
        ]
        markers = [Transaction(APP_ID, sequence + len(events) - 1)]
        markers += [
            Transaction(SNAPSHOT_ID, sequence + n) for n, e in enumerate(events) if isinstance(e, LedgerSnapshot)
        ]
        marker = CommitProperties(app_transactions=markers)
        # The decision was based on the version in `table`: Delta checks the commit against everything after it. Whether
        # a refused append has landed does not matter: nobody acts on an event before its append has returned.
        try:
            write_deltalake(table, pa.Table.from_pylist(rows, LEDGER_SCHEMA), mode="append", commit_properties=marker)
        except (DeltaError, OSError) as error:
            if isinstance(error, DeltaError) and any(text in str(error) for text in _OVERTAKEN):
                return False
            raise refused(_WHAT, self.uri, error) from error
        return self._holds(rows, table.version())

    def _holds(self, rows: Sequence[Row], version: int) -> bool:
        """Whether rows that were committed as this version are part of the ledger.

        The log is kept for minutes only, so the file names of older commits become free again. A writer that stood
        still before its hard link may give such a name to its commit, and nobody would ever read that commit.
        """
        tail = LogTail.of(self.uri)  # far quicker than to open the table
        if tail is not None and tail.version == version:  # the newest version is always read
            return True
        table = open_table(self.uri)
        if table is None:
            return False
        if table.version() == version:
            return True
        condition = f"where sequence >= {rows[0]['sequence']} and sequence <= {rows[-1]['sequence']}"
        return [
            (r["recorded_at"], r["details"]) for r in query(table, f"select * from t {condition} order by sequence")
        ] == [(r["recorded_at"], r["details"]) for r in rows]


def _wants_snapshot(events: Sequence[Event]) -> bool:
    last = events[-1]
    return isinstance(last, BatchCommitted) and last.batch_id % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1
