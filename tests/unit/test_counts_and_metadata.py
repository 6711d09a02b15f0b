from __future__ import annotations

import pytest

from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts, account
from include.protocol.errors import CountsDisagree, TableDamaged
from include.protocol.guarantees import Part, end_to_end
from include.protocol.ranges import TopicPartition
from tests.support.batches import COUNTS, batch


def test_i8_a_count_that_does_not_add_up_stops_before_the_merge() -> None:
    with pytest.raises(CountsDisagree, match="10 records read"):
        SourceCounts(read=10, quarantined=1, filtered=1, superseded=3, changes=4)


def test_i8_the_whole_sum() -> None:
    counts = account(COUNTS, merge_source_rows=5, applied=3, where="here")
    parts = counts.applied + counts.superseded + counts.stale + counts.quarantined + counts.filtered
    assert parts == counts.read == 10
    assert counts.stale == 2


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
