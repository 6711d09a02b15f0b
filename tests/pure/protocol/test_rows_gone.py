"""What a person has put on record, or a promotion has replaced, is no longer in the target."""

from __future__ import annotations

from dataclasses import replace

from include.protocol.ledger_events import BackfillEnded, GenerationStarted
from include.protocol.rows_gone import backfills_elsewhere, is_gone, versions_gone
from tests.support.batches import batch, committed

BEGUN = GenerationStarted(2, {}, {}, None, "committed", "test", "test", target_version=9, table_id="a")


def test_a_restore_and_a_promotion_take_versions_away() -> None:
    restored = replace(BEGUN, restored_to=4)
    promoted = replace(BEGUN, generation=3, origin="backfill 1", target_version=12)
    assert versions_gone([BEGUN, restored]) == [(4, 9)]
    assert versions_gone([BEGUN, restored, promoted]) == [(-1, 12)]


def test_who_goes_back_to_what_was_taken_away_brings_it_back() -> None:
    def back_to(version: int, at: int) -> GenerationStarted:
        return replace(BEGUN, origin="checkpoint 1/1", restored_to=version, target_version=at)

    once = [back_to(4, 9)]
    assert versions_gone([*once, back_to(12, 15)]) == [(4, 9), (12, 15)]
    assert versions_gone([*once, back_to(7, 15)]) == [(7, 15)], "5 to 7 are there again"
    assert versions_gone([*once, back_to(3, 15)]) == [(3, 15)]
    assert versions_gone([*once, back_to(12, 15), back_to(10, 20)]) == [(4, 9), (10, 20)]
    gone = versions_gone([*once, back_to(12, 15), back_to(10, 20), back_to(6, 25)])
    assert [version for version in range(30) if not is_gone(version, gone)] == [*range(7), *range(26, 30)]


def test_a_replay_that_ended_in_another_table_left_nothing_in_this_one() -> None:
    replayed, again = BackfillEnded(1, "applied", "test"), BackfillEnded(2, "applied", "test")
    of_a = replace(committed(batch(0)), table_id="a")
    anew = replace(BEGUN, table_id="b")
    assert backfills_elsewhere([of_a, replayed]) == []
    assert backfills_elsewhere([of_a, replayed, anew, again]) == [1]
    assert backfills_elsewhere([replayed, anew]) == [], "an older ledger does not say which table it was"
