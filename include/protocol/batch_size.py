"""How many offsets a batch may span, so that its attempt takes about as long as is wanted. Pure."""

from __future__ import annotations

from include.protocol.ledger_state import LedgerState

# A batch of fewer takes no less time: what a batch costs whatever it holds is most of it (docs/sizing.md).
LEAST_OFFSETS = 10_000


def offsets_at_most(state: LedgerState, seconds: float | None, records_max: int) -> int:
    """Of the next batch.

    As many as would have taken `seconds` at the pace of the newest batch whose time is known. What a batch costs
    whatever it holds makes that too few at first, never too many: sizes grow batch by batch to the one that takes that
    long.

    Args:
        seconds: that an attempt is to take; None: as many as are allowed. records_max: what the pipeline file allows.
    """
    if seconds is None:
        return records_max
    pace = _offsets_per_second(state)
    wanted = LEAST_OFFSETS if pace is None else max(LEAST_OFFSETS, int(pace * seconds))
    return min(wanted, records_max)


def _offsets_per_second(state: LedgerState) -> float | None:
    for record in reversed(state.batches):
        if record.commit is not None and record.commit.attempt_seconds:
            return record.batch.width / record.commit.attempt_seconds
    return None
