"""Writers of which a test makes zombies: `python -m tests.support.late_writers appends|fences TABLE [at-the-link]`.

Each prints what it was told; `at-the-link`: it stands still where a file system decides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from include.lake.delta_tables import commit_markers, open_table
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted
from include.protocol.ledger_state import LedgerState
from tests.support.at_the_link import stand_still_at_the_link


def appends(ledger: LakeUri) -> list[int]:
    """Returns how many attempts the ledger had, each time that this writer has decided."""
    decided_on = []

    def decide(state: LedgerState) -> Sequence[AttemptStarted]:
        assert state.pending is not None
        decided_on.append(len(state.pending.attempts))
        return [AttemptStarted(1, 0, "zombie", "h", "cli")]

    Ledger(ledger).append(decide)
    return decided_on


def fences(uri: LakeUri) -> bool:
    table = open_table(uri)
    assert table is not None
    return commit_markers(table, {"zombie": 7}, "{}")


if __name__ == "__main__":
    _, kind, where, *still = sys.argv
    if still:
        stand_still_at_the_link()
    print({"appends": appends, "fences": fences}[kind](LakeUri(where)))
