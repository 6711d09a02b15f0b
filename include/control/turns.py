"""Turns: who works long on a pipeline's tables keeps it from planning meanwhile, and who removes files of old versions
keeps others from taking them up (see `TurnTaken`)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Literal

from include.lake.ledger import Ledger
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import Event, TurnOver, TurnTaken
from include.protocol.ledger_state import LedgerState

LENGTH = timedelta(minutes=2)  # a holder that dies keeps the pipeline waiting for no longer
_RENEWED_AFTER, _LOOK_SECONDS = LENGTH / 4, 0.5
_CLOCKS_DIFFER = timedelta(hours=1)  # of two machines, by less than this
_PENDING_SECONDS = 120.0  # for a batch that was planned before the turn; it may be one that fails

log = logging.getLogger(__name__)


@contextmanager
def turn(ledger: Ledger, holder: str, over: TurnOver = "planning") -> Iterator[None]:
    """It begins once nobody else has a turn over the same. Over planning: within the block nothing is planned, and the
    batch that was planned before has landed, if it does not fail.

    Args:
        holder: who it is, for people.

    Raises:
        RetryableError: the ledger cannot be written.
    """
    while not _take(ledger, holder, over):
        wait_for_turn(ledger, log.warning, over)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(ledger, holder, over, ended), daemon=True)
    renewing.start()
    try:
        if over == "planning":
            _wait(lambda: ledger.recent().pending is None, _PENDING_SECONDS)
        yield
    finally:
        ended.set()
        renewing.join()
        end_turn(ledger, holder, over)


def end_turn(ledger: Ledger, holder: str, over: TurnOver = "planning") -> None:
    """Ends a turn, also one whose holder was killed. If the ledger cannot be written, it ends by itself."""
    with suppress(LakemarkError):
        _end(ledger, over, lambda turn: turn.holder == holder)


def wait_for_turn(ledger: Ledger, say: Callable[[str], None], over: TurnOver = "planning") -> None:
    """Returns once nobody has a turn. Args: say: is told once who has it."""
    turn = _turn_of(ledger, over)
    if turn is not None:
        say(f"{turn.holder} has its turn; {'planning' if over == 'planning' else 'this'} goes on after it")
        _outlast(ledger, over)


class NotOurTurnError(Exception):
    """Somebody has a turn, so nothing is planned now."""


def verify_turn(state: LedgerState, holder: str | None = None) -> None:
    """Raises NotOurTurnError: somebody else than `holder` has a turn. Whoever catches it calls `wait_for_turn`."""
    turn = turn_now(state, datetime.now(UTC))
    if turn is not None and turn.holder != holder:
        raise NotOurTurnError


def turn_now(state: LedgerState, now: datetime, over: TurnOver = "planning") -> TurnTaken | None:
    """The turn that somebody has now. Pure. One over files counts for longer than its holder's clock says: what
    depends on it must not depend on clocks (see `_outlast`)."""
    turn = state.turns.get(over)
    if turn is None or turn.until is None:
        return None
    until = datetime.fromisoformat(turn.until) + (_CLOCKS_DIFFER if over == "files" else timedelta())
    return turn if until > now else None


def _turn_of(ledger: Ledger, over: TurnOver) -> TurnTaken | None:
    state = ledger.recent() if _about(over) is None else ledger.state()
    return turn_now(state, datetime.now(UTC), over)


def _about(over: TurnOver) -> Literal["all"] | None:
    """What of the ledger is asked. More than fairness depends on a turn over files, and a recent state may have missed
    one."""
    return "all" if over == "files" else None


def _outlast(ledger: Ledger, over: TurnOver) -> None:
    """Returns once nobody has a turn. One that was not taken again for its whole length has ended, whatever the clock
    of its holder said."""
    seen, since = _turn_of(ledger, over), time.monotonic()

    def is_over() -> bool:
        nonlocal seen, since
        now = _turn_of(ledger, over)
        if now != seen:
            seen, since = now, time.monotonic()
        elif now is not None and time.monotonic() - since > LENGTH.total_seconds():
            _end(ledger, over, lambda turn: turn == now)
        return now is None

    _wait(is_over, float("inf"))


def _end(ledger: Ledger, over: TurnOver, which: Callable[[TurnTaken], bool]) -> None:
    def decide(state: LedgerState) -> list[Event]:
        found = state.turns.get(over)
        return [] if found is None or not which(found) else [TurnTaken(state.generation, found.holder, None, over)]

    ledger.append(decide, about=_about(over))


def _take(ledger: Ledger, holder: str, over: TurnOver) -> bool:
    """Takes a turn, or takes it again. False if somebody else has it."""
    now, is_taken = datetime.now(UTC), False

    def decide(state: LedgerState) -> list[Event]:
        nonlocal is_taken
        of = turn_now(state, now, over)
        is_taken = of is None or of.holder == holder
        return [TurnTaken(state.generation, holder, (now + LENGTH).isoformat(), over)] if is_taken else []

    ledger.append(decide, about=_about(over))
    return is_taken


def _renew(ledger: Ledger, holder: str, over: TurnOver, ended: threading.Event) -> None:
    while not ended.wait(_RENEWED_AFTER.total_seconds()):
        with suppress(LakemarkError):  # the next one may succeed before it ends
            _take(ledger, holder, over)


def _wait(until: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
