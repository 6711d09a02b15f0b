"""Turns: who works long on a pipeline's tables keeps it from planning meanwhile (see `TurnTaken`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from include.lake.ledger import Ledger
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import Event, TurnTaken
from include.protocol.ledger_state import LedgerState

LENGTH = timedelta(minutes=2)  # a holder that dies keeps the pipeline waiting for no longer
_RENEWED_AFTER, _LOOK_SECONDS = LENGTH / 4, 0.5
_PENDING_SECONDS = 120.0  # for a batch that was planned before the turn; it may be one that fails


@contextmanager
def turn(ledger: Ledger, holder: str) -> Iterator[None]:
    """Within the block nothing is planned. It begins once nobody else has a turn, and once the batch that was planned
    before has landed.

    Args:
        holder: who it is, for people.

    Raises:
        RetryableError: the ledger cannot be written.
    """
    while not _take(ledger, holder):
        _outlast(ledger)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(ledger, holder, ended), daemon=True)
    renewing.start()
    try:
        _wait(lambda: ledger.recent().pending is None, _PENDING_SECONDS)
        yield
    finally:
        ended.set()
        renewing.join()
        end_turn(ledger, holder)


def end_turn(ledger: Ledger, holder: str) -> None:
    """Ends a turn, also one whose holder was killed. If the ledger cannot be written, it ends by itself."""
    with suppress(LakemarkError):
        _end(ledger, lambda turn: turn.holder == holder)


def wait_for_turn(ledger: Ledger, say: Callable[[str], None]) -> None:
    """Returns once nobody has a turn. Args: say: is told once who has it."""
    turn = _turn_of(ledger)
    if turn is not None:
        say(f"{turn.holder} has its turn; planning goes on after it")
        _outlast(ledger)


class NotOurTurnError(Exception):
    """Somebody has a turn, so nothing is planned now."""


def verify_turn(state: LedgerState, holder: str | None = None) -> None:
    """Raises NotOurTurnError: somebody else than `holder` has a turn. Whoever catches it calls `wait_for_turn`."""
    turn = turn_now(state, datetime.now(UTC))
    if turn is not None and turn.holder != holder:
        raise NotOurTurnError


def turn_now(state: LedgerState, now: datetime) -> TurnTaken | None:
    """The turn that somebody has now. Pure."""
    turn = state.turn
    return turn if turn is not None and turn.until is not None and datetime.fromisoformat(turn.until) > now else None


def _turn_of(ledger: Ledger) -> TurnTaken | None:
    return turn_now(ledger.recent(), datetime.now(UTC))


def _outlast(ledger: Ledger) -> None:
    """Returns once nobody has a turn. One that was not taken again for its whole length has ended, whatever the clock
    of its holder said."""
    seen, since = _turn_of(ledger), time.monotonic()

    def is_over() -> bool:
        nonlocal seen, since
        now = _turn_of(ledger)
        if now != seen:
            seen, since = now, time.monotonic()
        elif now is not None and time.monotonic() - since > LENGTH.total_seconds():
            _end(ledger, lambda turn: turn == now)
        return now is None

    _wait(is_over, float("inf"))


def _end(ledger: Ledger, which: Callable[[TurnTaken], bool]) -> None:
    def decide(state: LedgerState) -> list[Event]:
        found = state.turn
        return [] if found is None or not which(found) else [TurnTaken(state.generation, found.holder, None)]

    ledger.append(decide, about=None)


def _take(ledger: Ledger, holder: str) -> bool:
    """Takes a turn, or takes it again. False if somebody else has it."""
    now, is_taken = datetime.now(UTC), False

    def decide(state: LedgerState) -> list[Event]:
        nonlocal is_taken
        of = turn_now(state, now)
        is_taken = of is None or of.holder == holder
        return [TurnTaken(state.generation, holder, (now + LENGTH).isoformat())] if is_taken else []

    ledger.append(decide, about=None)
    return is_taken


def _renew(ledger: Ledger, holder: str, ended: threading.Event) -> None:
    while not ended.wait(_RENEWED_AFTER.total_seconds()):
        with suppress(LakemarkError):  # the next one may succeed before it ends
            _take(ledger, holder)


def _wait(until: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
