"""What a person has put on record, or a promotion has replaced, is no longer in the target."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.ledger_events import BackfillEnded, GenerationStarted
from include.protocol.rows_gone import backfills_elsewhere, versions_gone
from tests.support.batches import batch, committed

BEGUN = GenerationStarted(2, {}, {}, None, "committed", "test", "test", target_version=9, table_id="a")


def test_a_restore_and_a_promotion_take_versions_away() -> None:
    restored = replace(BEGUN, restored_to=4)
    promoted = replace(BEGUN, generation=3, origin="backfill 1", target_version=12)
    assert versions_gone([BEGUN, restored, promoted]) == [(4, 9), (-1, 12)]


def test_a_replay_that_ended_in_another_table_left_nothing_in_this_one() -> None:
    replayed, again = BackfillEnded(1, "applied", "test"), BackfillEnded(2, "applied", "test")
    of_a = replace(committed(batch(0)), table_id="a")
    anew = replace(BEGUN, table_id="b")
    assert backfills_elsewhere([of_a, replayed]) == []
    assert backfills_elsewhere([of_a, replayed, anew, again]) == [1]
    assert backfills_elsewhere([replayed, anew]) == [], "an older ledger does not say which table it was"
