from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import MergeCounts, SourceCounts, account
from include.protocol.errors import CountsDisagree, TableDamaged
from include.protocol.guarantees import Part, end_to_end
from include.protocol.ranges import TopicPartition
from tests.support.batches import COUNTS, batch, merged


def test_i8_a_count_that_does_not_add_up_stops_before_the_merge() -> None:
    with pytest.raises(CountsDisagree, match="10 records read"):
        SourceCounts(read=10, quarantined=1, filtered=1, superseded=3, changes=4)


def test_i8_the_whole_sum() -> None:
    counts = account(COUNTS, merged(5, 3), pipeline="p", where="here")
    parts = counts.applied + counts.superseded + counts.stale + counts.quarantined + counts.filtered
    assert parts == counts.read == 10
    assert counts.stale == 2


def test_i8_a_row_whose_key_changed_is_two_changes() -> None:
    source = SourceCounts(read=4, quarantined=1, filtered=0, superseded=2, changes=3, added=2)
    counts = account(source, MergeCounts(source_rows=3, inserted=1, updated=1, deleted=0), pipeline="p", where="here")
    assert counts.read + counts.added == counts.applied + counts.superseded + counts.stale + counts.quarantined == 6
    with pytest.raises(CountsDisagree, match="4 records read and 1 changes beyond them"):
        replace(source, added=1)


def test_i8_history_counts_the_changes_that_it_had_not() -> None:
    source = SourceCounts(read=5, quarantined=0, filtered=0, superseded=0, changes=5)
    merge = MergeCounts(source_rows=7, inserted=3, updated=4, deleted=0)  # four earlier rows end differently now
    counts = account(source, merge, pipeline="p", where="here", of_history=True)
    assert (counts.applied, counts.stale) == (3, 2)
    for wrong in (replace(merge, source_rows=8), replace(merge, inserted=6, source_rows=10)):
        with pytest.raises(CountsDisagree, match="other rows"):
            account(source, wrong, pipeline="p", where="here", of_history=True)


def test_i8_rows_that_a_truncate_deletes_are_no_records() -> None:
    source = SourceCounts(read=3, quarantined=0, filtered=0, superseded=0, changes=3)
    merge = MergeCounts(source_rows=10, inserted=1, updated=8, deleted=0)  # seven earlier rows are deleted
    counts = account(source, merge, pipeline="p", where="here", truncated=True)
    assert (counts.applied, counts.stale) == (2, 1)
    with pytest.raises(CountsDisagree, match="other rows"):
        account(source, merge, pipeline="p", where="here")


def test_commit_metadata_survives_its_json() -> None:
    metadata = CommitMetadata.of(batch(2), "quarantine", COUNTS, {TopicPartition("t", 0): 30}, "attempt", "0.1.0")
    assert CommitMetadata.loads(metadata.dumps()) == metadata


@pytest.mark.parametrize("text", [None, "", "a note", "[]", '{"lakemark": 99}', '"x"'])
def test_the_metadata_of_other_writers_is_none_of_ours(text: str | None) -> None:
    assert CommitMetadata.loads(text) is None


def test_metadata_that_was_edited_is_damage() -> None:
    metadata = CommitMetadata.of(batch(2), "target", COUNTS, {}, "attempt", "0.1.0").dumps()
    with pytest.raises(TableDamaged, match="p batch 2"):
        CommitMetadata.loads(metadata.replace("fingerprint", "finger"))


def test_the_weakest_part_decides() -> None:
    parts = [Part("a", "exactly_once", ""), Part("b", "at_least_once", ""), Part("c", "exactly_once", "")]
    assert end_to_end(parts).name == "b"
