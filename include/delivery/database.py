"""What sinks in databases have in common: which transactions a delivery is made of, and in which order."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from include.delivery.contract import Delivery, Pending
from include.delivery.prepared import PreparedTransactions
from include.delivery.sink_table import SinkTable
from include.delivery.trouble import busy, overtaken, taken_by, under_way
from include.fault_points import fault_point
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

    def stage(self, delivery: Delivery) -> None:  # noqa: B027, a server may stage within the transaction
        """Brings rows and keys to the server before the transaction, where only this session sees them."""

    @abstractmethod
    def publish(self, delivery: Delivery, is_prepared: bool = False) -> int:
        """Makes them the table's. Returns how many rows it has changed.

        Args:
            is_prepared: the transaction will be, so it may use nothing that is the session's alone.
        """
