from __future__ import annotations

import pytest

from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange, fingerprint
from tests.support.batches import batch


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_a_range_is_half_open_and_holds_something(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="with something in it, END exclusive"):
        OffsetRange("t", 0, start, end)


def test_a_batch_has_one_range_per_partition_in_order() -> None:
    with pytest.raises(ValueError, match="sorted"):
        batch(0, ("t", 1, 0, 5), ("t", 0, 0, 5))
    with pytest.raises(ValueError, match="one per partition"):
        batch(0, ("t", 0, 0, 5), ("t", 0, 5, 9))


def test_the_fingerprint_names_ranges_topics_and_cluster() -> None:
    ranges = [OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 5)]
    first = fingerprint(ranges, {"t": "a"}, "c")
    assert first == fingerprint(reversed(ranges), {"t": "a", "unused": "b"}, "c")
    others = [
        fingerprint([OffsetRange("t", 0, 0, 6), ranges[1]], {"t": "a"}, "c"),
        fingerprint(ranges, {"t": "recreated"}, "c"),
        fingerprint(ranges, {"t": "a"}, "other cluster"),
    ]
    assert len({first, *others}) == 4


def test_a_batch_survives_json() -> None:
    one = batch(3, ("t", 0, 0, 5), ("u", 2, 7, 9))
    assert Batch.from_json(one.to_json()) == one
    assert one.width == 7
    assert one.app_id == "lakemark/p/g1"
