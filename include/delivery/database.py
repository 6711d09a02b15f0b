"""What sinks in databases have in common: which transactions a delivery is made of, and in which order."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from include.delivery.contract import Delivery, Pending
from include.delivery.prepared import PreparedTransactions
from include.delivery.sink_table import PROGRESS, SinkTable
from include.delivery.sql_values import changed_text
from include.delivery.trouble import busy, overtaken, refuses, taken_by, under_way
from include.fault_points import fault_point
from include.pipeline_file.kept_values import TypeAtSink, keeping
from include.pipeline_file.sink_columns import FLAG, SinkColumn
from include.protocol.progress import Progress
from include.protocol.two_phase import Prepared

# Columns of the table of progress.
OF_PROGRESS = ("table_id", "version", "generation", "batch_id", "attempt_id", "shape")
ROWS, GONE = "lakemark_rows", "lakemark_gone"  # tables of the session
STILL_SECONDS = 60.0  # a session that holds the sink and has not moved for so long is ended
WAIT_SECONDS = 300.0  # for one that moves
LOOK_SECONDS = 0.5
_BUSY_SECONDS, _BUSY_LOOK_SECONDS = 60.0, 0.02  # for a prepared transaction that another session has
ANSWER_SECONDS = 3600.0  # for each answer of a server: it may sort millions of rows meanwhile
_END_SECONDS = 60.0  # for the answer to the end of a prepared transaction, which writes no row


class Holder(NamedTuple):
    """A session that has a sink."""

    session: int
    does: tuple[object, ...]  # whatever changes while it moves
    waits: bool  # for its client, as far as the server knows


class Session(Protocol):
    """What the sessions of all servers have. Args: answer_seconds: for which they wait for each answer."""

    answer_seconds: float


@dataclass
class DatabaseSink(ABC):
    """See `WriteAheadSink` and `TwoPhaseSink`."""

    table: SinkTable
    connection: Session = field(repr=False)

    def take(self) -> None:
        """Takes the sink, once nobody else has it. A session that has it and waits for a client that no longer moves is
        ended. A sink that cannot be taken is let go.

        Raises:
            RetryableError: it does not answer, or the one that has it moves, and does not end. TerminalError: it would
                take one key for another.
        """
        try:
            self._wait_for_lock()
            fault_point("sink.taken")
            with self.errors():
                self.verify_keys()
                self.verify_columns()
            if self.table.mode == "two_phase":
                self.verify_prepares()
        except BaseException:
            self.close()
            raise

    def _wait_for_lock(self) -> None:
        began = moved = time.monotonic()
        seen: Holder | None = None
        with self.errors():
            while not self.locked():
                holder, now = self.holder(), time.monotonic()
                if holder is None or holder != seen or not holder.waits:
                    seen, moved = holder, now
                elif now - moved > STILL_SECONDS:
                    self.end_session(holder)
                if now - began > WAIT_SECONDS:
                    session = "unknown" if holder is None else str(holder.session)
                    raise under_way(self.table.where, session, WAIT_SECONDS)
                time.sleep(LOOK_SECONDS)

    def progress(self) -> Progress | None:
        with self.errors():
            return self.found()

    def deliver(self, delivery: Delivery) -> int:
        with self.errors():
            self._verify_takes(delivery)
            self.stage(delivery)
            match self.table.guarantee:
                case "exactly_once":
                    with self.transaction():
                        self._advance(delivery)
                        return self.publish(delivery)
                case "at_least_once":
                    with self.transaction():
                        changed = self.publish(delivery)
                    with self.transaction():
                        self._advance(delivery)
                    return changed
                case "at_most_once":
                    with self.transaction():
                        self._advance(delivery)
                    with self.transaction():
                        return self.publish(delivery)

    def prepare(self, delivery: Delivery, prepared: Prepared) -> int:
        with self.errors():
            self._verify_takes(delivery)
            self.stage(delivery)
            with self.prepared.preparing(prepared):
                self._advance(delivery)
                changed = self.publish(delivery, is_prepared=True)
        return changed

    def end(self, prepared: Prepared, commits: bool) -> bool:
        deadline = time.monotonic() + _BUSY_SECONDS
        with self.errors(), self._hurried():
            while not self.prepared.end(prepared, commits):  # a session that was ended lets go a moment later
                if not any(one.prepared == prepared for one in self.prepared.pending()):
                    return False
                if time.monotonic() > deadline:
                    raise busy(self.table.where, self.table.pipeline, prepared.name(), seconds=_BUSY_SECONDS)
                time.sleep(_BUSY_LOOK_SECONDS)
        return True

    @contextmanager
    def _hurried(self) -> Iterator[None]:
        """The batch may have landed already: a server that is frozen now shall not hold up whoever ends it."""
        usual, self.connection.answer_seconds = self.connection.answer_seconds, _END_SECONDS
        try:
            yield
        finally:
            self.connection.answer_seconds = usual

    def pending(self) -> list[Pending]:
        with self.errors():
            return self.prepared.pending()

    def verify_prepares(self) -> None:
        with self.errors():
            self.prepared.verify()

    def _advance(self, delivery: Delivery) -> None:
        """Sets the progress, if it is where the delivery expects it."""
        if (found := self.found(is_locked=True)) != delivery.after:
            raise overtaken(self.table.where, delivery.after, found)
        if found is None and (other := self.other_writer()) is not None:
            raise taken_by(self.table.where, other, f"{self.table.pipeline}.yaml")
        self.set_progress(delivery.now)

    @abstractmethod
    def close(self) -> None:
        """Lets the sink go."""

    @abstractmethod
    def errors(self) -> AbstractContextManager[None]:
        """What the server says, as Lakemark's errors."""

    @abstractmethod
    def locked(self) -> bool:
        """Takes the lock that says who delivers, if nobody has it."""

    @abstractmethod
    def holder(self) -> Holder | None:
        """Who has that lock; None: nobody, by now."""

    @abstractmethod
    def end_session(self, holder: Holder) -> None:
        """Ends that session."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One transaction; its end passes the fault points `sink.written` and `sink.committed`.

        Raises:
            OutcomeUnknownError: the answer to the commit is lost.
        """

    @property
    @abstractmethod
    def prepared(self) -> PreparedTransactions:
        """The sink's prepared transactions, by this session."""

    @abstractmethod
    def found(self, is_locked: bool = False) -> Progress | None:
        """Where the sink stands. Args: is_locked: until the transaction's end, nobody else may change it."""

    @abstractmethod
    def other_writer(self) -> str | None:
        """The pipeline and the sink that deliver into this table already, if it is another one."""

    @abstractmethod
    def set_progress(self, now: Progress) -> None:
        """Sets where the sink stands."""

    def verify_keys(self) -> None:  # noqa: B027, most servers take no key for another
        """Checks that the server finds a row by the whole of its key and by nothing else. Raises TerminalError: it does
        not."""

    def verify_columns(self) -> None:
        """Checks that no column changes values in silence, and none marks rows as deleted that are there.

        Raises:
            TerminalError: one could, or does.
        """
        table = self.table.in_words
        if FLAG in self._types and FLAG not in self.table.names and not self.table.flags:
            action = (
                f"let the section say `deletes: flag`; or run `DELETE FROM {table} WHERE {FLAG}` and "
                f"`ALTER TABLE {table} DROP COLUMN {FLAG}`; then run the same again"
            )
            raise refuses(self.table.where, f"the column {FLAG}, which the section does not ask for", action)
        for column, at_sink in self._types_there():
            if not at_sink.keeps(column.type):
                wanted = keeping(self.table.system, column.type, is_key=column.is_key)
                found = f"the column {column.name} of type {at_sink}, which cuts or rounds values in silence"
                raise refuses(self.table.where, found, f"change the column to {wanted}; or name a table apart")

    def _verify_takes(self, delivery: Delivery) -> None:
        """Checks that the table can take the rows.

        Raises:
            TerminalError: a text is one that its column would cut, or write otherwise; or the changes that the table
                has may be the ones that come, since nothing says how far it is.
        """
        if delivery.changes is None:
            return
        is_first = delivery.after is None and self.table.guarantee == "exactly_once"
        if is_first and self.table.is_log and not self.is_empty():
            skip = f"`lakemark sinks skip {self.table.pipeline} {self.table.name} --all --reason ...`"
            action = f"empty the table, and all comes again; or {skip} goes on with what comes"
            raise refuses(self.table.where, f"changes, and no progress of this sink in {PROGRESS}", action)
        for column, at_sink in self._types_there():
            condition = changed_text(column, at_sink)
            if condition is not None and delivery.changes.has(condition, of_keys=column.is_key):
                found = f"a text that a column of type {at_sink} would not keep as it is, {column.name}"
                raise refuses(self.table.where, found, self.table.unfit_advice)

    def _types_there(self) -> Iterator[tuple[SinkColumn, TypeAtSink]]:
        """The columns that the table has, and their types. Of one that it lacks the server itself tells."""
        for column in self.table.columns:
            if (found := self._types.get(column.name)) is not None:
                yield column, found

    @cached_property
    def _types(self) -> dict[str, TypeAtSink]:
        return {name: TypeAtSink.read(self.table.system, text) for name, text in self.column_types().items()}

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the table has no row."""

    @abstractmethod
    def column_types(self) -> dict[str, str]:
        """The types of the table's columns, by their names; where case makes no difference, by the sink's names."""

    def stage(self, delivery: Delivery) -> None:  # noqa: B027, a server may stage within the transaction
        """Brings rows and keys to the server before the transaction, where only this session sees them."""

    @abstractmethod
    def publish(self, delivery: Delivery, is_prepared: bool = False) -> int:
        """Makes them the table's. Returns how many rows it has changed.

        Args:
            is_prepared: the transaction will be, so it may use nothing that is the session's alone.
        """
