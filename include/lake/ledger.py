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
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from include.lake.appended import rows_from
from include.lake.delta_tables import CHECKPOINT_EVERY, Row, keep_few_files, open_table
from include.lake.lakes import MARK, id_of, lives_elsewhere, moved_to, verify_whole
from include.lake.ledger_reads import APP_ID, SNAPSHOT_ID, About, LedgerRead, files_in, opened, rows_of
from include.lake.log_store import succession
from include.lake.merge.append import Append
from include.lake.merge.landing import Marker, MarkerIsThereError, OvertakenError, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import delta_options, files_at, log_store_of
from include.lake.uri import LakeUri
from include.lake.writing import refused, writing
from include.protocol.batch import BatchKey
from include.protocol.errors import RetryableError, TableDamaged, TerminalError
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

    def created_at(self) -> datetime | None:
        """When the table was made, in UTC; None if there is no ledger yet."""
        table = opened(self.uri)
        return None if table is None else datetime.fromtimestamp(table.metadata["createdTime"] / 1000, UTC)

    def rows(self) -> list[Row]:
        """All events as rows, in order, with `details` as data."""
        table = opened(self.uri)
        return rows_of(table) if table is not None else []

    def append(self, decide: Decide, about: About = "all", moves: bool = False) -> LedgerState:
        """Records what `decide` returns for the current state, and returns the state after it.

        If another writer was faster, `decide` is called again with the new state; it must not write. The events are
        folded before anything is written, so an event that cannot follow is refused and not recorded.

        Args:
            about: what `decide` needs to know: see `LedgerRead.of`. moves: the events say where the pipeline lives from
                here on; all others are refused unless it lives here.

        Raises:
            TerminalError: the pipeline lives in another lake, or in one that is not whole.
            RetryableError: other writers were faster every time, or the file system refused the write.
            LedgerConflict: the events cannot follow. TableDamaged: see `open_table`.
        """
        for _ in range(_RACES_MAX):
            read = LedgerRead.of(self.uri, about)
            if not moves:
                self._verify_lives_here(read.state)
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
            version = self._commit(read.table, read.next_sequence, events)
            if version is not None:
                if read.table.version == version:
                    read.with_appended(events, after).keep(self.uri)
                return after
        raise RetryableError(
            what="other writers of the ledger were faster",
            where=str(self.uri),
            expected=f"one commit in {_RACES_MAX} tries",
            found="none",
            action="try again; if it persists, look for a process that writes this ledger in a loop",
        )

    def keep_few_files(self) -> None:
        """Makes one file of many, if there are many. It is slow: call it where nobody waits."""
        if files_in(self.uri) > _FILES_MAX and (table := open_table(self.uri)) is not None:
            keep_few_files(table, _FILES_MAX)

    def set_aside(self) -> LakeUri | None:
        """Moves a ledger away before a rebuild. Returns where it lies now; None if there was none."""
        if not files_at(self.uri).exists(self.uri):
            return None
        self._verify_takes_new()
        aside = self.uri.beside(f"{self.uri.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
        with writing("the ledger's new name", aside):
            files_at(self.uri).move(self.uri, aside)
        return aside

    @property
    def lake(self) -> LakeUri:
        """The lake that it belongs to: it lies in `_lakemark/ledger/NAME`."""
        return self.uri.parent.parent.parent

    def _verify_lives_here(self, state: LedgerState) -> None:
        """Refuses events of a pipeline that lives in another lake (`PipelineMoved`), or in one that is not whole."""
        if state.moved is None:
            return
        if state.moved.lake != (here := id_of(self.lake)):
            raise _unmarked(self.lake) if here is None else lives_elsewhere(self.lake, state.moved.to)
        verify_whole(self.lake)

    def _verify_takes_new(self) -> None:
        """Refuses a new ledger in a lake whose pipelines live in another one, and in one that is not whole."""
        if (elsewhere := moved_to(self.lake)) is not None:
            raise lives_elsewhere(self.lake, str(elsewhere))
        verify_whole(self.lake)

    def _create(self) -> None:
        self._verify_takes_new()
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

    def _commit(self, table: Snapshot, sequence: int, events: Sequence[Event]) -> int | None:
        """Appends the events, and brings the table up to them. Returns the version that has them; None if another
        writer was faster."""
        now = datetime.now(UTC)
        rows = [
            {"sequence": sequence + n, "recorded_at": now, **row, "details": json.dumps(row["details"])}
            for n, row in enumerate(map(to_row, events))
        ]
        marker = Marker(APP_ID, sequence + len(events) - 1)
        beside = [Marker(SNAPSHOT_ID, sequence + n) for n, e in enumerate(events) if isinstance(e, LedgerSnapshot)]
        append = Append(pa.Table.from_pylist(rows, LEDGER_SCHEMA))
        # The decision was based on this version of the table: the commit succeeds it, or nothing.
        before = succession(table.version, table.stamp)
        try:
            with writing(_WHAT, self.uri):
                version = land(table, append, marker, None, succeeds=before, beside=beside)
                table.brought_up()
        except (OvertakenError, MarkerIsThereError):
            return None
        except UnfitError as error:
            raise refused(_WHAT, self.uri, error) from error
        if table.version != version and not _holds(table, rows):
            return None
        if version % CHECKPOINT_EVERY == 0:
            self._keep_log_short()
        return version

    def _keep_log_short(self) -> None:
        with suppress(DeltaError, OSError, TableDamaged):  # a later append does it
            if (table := open_table(self.uri)) is not None:
                table.create_checkpoint()
                table.cleanup_metadata()


def _holds(table: Snapshot, rows: Sequence[Row]) -> bool:
    """Whether rows that were committed are part of the ledger.

    The log is kept for minutes only, so the file names of older commits become free again. A writer that stood still
    before its hard link may give such a name to its commit, and nobody would ever read that commit.
    """
    there = rows_from(table, "sequence", rows[0]["sequence"]).to_pylist()[: len(rows)]
    return [(r["recorded_at"], r["details"]) for r in there] == [(r["recorded_at"], r["details"]) for r in rows]


def _unmarked(lake: LakeUri) -> TerminalError:
    return TerminalError(
        what="the lake's mark was lost",
        where=str(lake / MARK),
        expected="the id of the lake in which its pipelines live",
        found="none",
        action="`lakemark lake mark` writes it again",
    )


def _wants_snapshot(events: Sequence[Event]) -> bool:
    last = events[-1]
    return isinstance(last, BatchCommitted) and last.batch_id % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1
