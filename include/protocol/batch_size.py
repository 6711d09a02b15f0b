"""Decides how many offsets a batch may span, so that its attempt takes about the wanted time. Pure."""

from __future__ import annotations

from include.protocol.ledger_state import LedgerState

# A smaller batch takes no less time: most of its cost does not depend on its size (docs/sizing.md).
LEAST_OFFSETS = 10_000


def offsets_at_most(state: LedgerState, seconds: float | None, records_max: int) -> int:
    """The most offsets that the next batch may span.

    It is the number that would have taken `seconds` at the pace of the newest batch whose time is known. Part of a
    batch's cost does not depend on its size, so the number is too small at first and never too large. Batches grow, one
    by one, until they take that time.

    Args:
        seconds: the time that an attempt should take; None: as many offsets as are allowed.
        records_max: what the pipeline file allows.
    """
    if seconds is None:
        return records_max
    pace = _offsets_per_second(state)
    wanted = LEAST_OFFSETS if pace is None else max(LEAST_OFFSETS, int(pace * seconds))
    return min(wanted, records_max)


def _offsets_per_second(state: LedgerState) -> float | None:
    for record in reversed(state.batches):
        if record.batch.ranges and record.commit is not None and record.commit.attempt_seconds:
            return record.batch.width / record.commit.attempt_seconds
    return None
