"""The form of the backfill DAG, and the request that it makes."""

from __future__ import annotations

import pytest

from include.control.backfill_form import ARCHIVE, CANCEL, RANGES, TIMES, number_to_cancel, request_of
from include.protocol.errors import TerminalError
from include.protocol.ranges import OffsetRange

FORM = {"what": RANGES, "ranges": None, "since": None, "until": None, "batches": None, "source": "kafka"}
FORM |= {"records_per_chunk": None, "backfill": None}


def test_the_form_makes_a_request_or_says_which_field_is_wrong() -> None:
    assert request_of(FORM | {"ranges": [" t-0:3-9 "]}).ranges == [OffsetRange("t", 0, 3, 9)]
    assert (
        request_of(FORM | {"what": TIMES, "since": "2026-11-20T08:00"}).since.isoformat() == "2026-11-20T08:00:00+00:00"
    )
    archive = request_of(FORM | {"what": ARCHIVE})
    assert (archive.source, archive.into, archive.is_everything) == ("archive", "same", True)
    for wrong, told in (
        ({"ranges": ["t-0:9-3"]}, "field Offset ranges"),
        ({}, "field Offset ranges.*at least one"),
        ({"what": TIMES}, "exactly one of"),
        ({"what": "batches", "batches": "x"}, "field Batches"),
        ({"what": TIMES, "since": "soon"}, "field From"),
        ({"what": TIMES, "since": "2026-11-20T08:00", "until": "2026-11-20T07:00"}, "a start before its end"),
    ):
        with pytest.raises(TerminalError, match=told):
            request_of(FORM | wrong)
    with pytest.raises(TerminalError, match="Backfill to cancel"):
        number_to_cancel(FORM | {"what": CANCEL})
