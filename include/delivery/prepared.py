"""What a database can do with prepared transactions of one sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from include.delivery.contract import Pending
from include.protocol.two_phase import Prepared


class PreparedTransactions(ABC):
    """Those of one sink, by one session."""

    @abstractmethod
    def preparing(self, prepared: Prepared) -> AbstractContextManager[None]:
        """One transaction that is prepared at its end, which passes the fault point `sink.written`."""

    @abstractmethod
    def end(self, prepared: Prepared, commits: bool) -> bool:
        """Ends one. False if there is none, or if another session still has it."""

    @abstractmethod
    def pending(self) -> list[Pending]:
        """See `TwoPhaseSink`."""

    @abstractmethod
    def verify(self) -> None:
        """See `TwoPhaseSink.verify_prepares`."""
