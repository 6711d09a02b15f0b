"""Whether the commit point, a pipeline's target, is as its ledger says."""

from __future__ import annotations

from include.lake.table_log import TableLog
from include.protocol.ledger_state import LedgerState
from include.protocol.settlement import verify_target_not_behind


def verify_point(pipeline: str, state: LedgerState, log: TableLog | None) -> None:
    """Checks that the target is as the last landed batch has left it.

    Args:
        state: the ledger's. log: the target's, as read after `state`; None: there is no such table.

    Raises:
        TargetBehindLedger: see `verify_target_not_behind`.
    """
    verify_target_not_behind(pipeline, state, log.view(pipeline, state) if log is not None else None)
