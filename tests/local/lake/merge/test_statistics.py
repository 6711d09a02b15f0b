"""Statistics of data files: bounds may be wider than the values, and never narrower."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.merge.positions import candidates
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import loosened, statistics_of
from include.lake.uri import LakeUri

TEXTS = st.text(st.sampled_from(["a", "b", "é", "￿", "\U0001f600", "\U0010ffff"]), max_size=70)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), TEXTS),
    "date": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda at: at.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), MOMENTS),
    "binary": (pa.binary(), st.binary(max_size=5)),
    "decimal": (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    "float": (pa.float64(), st.floats()),
}


def told(rows: pa.Table, **properties: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(statistics_of(rows, properties), parse_float=Decimal)
    return found


@pytest.mark.parametrize("name", VALUES)
@settings(deadline=None)
@given(data=st.data())
def test_a_file_that_holds_a_key_is_never_left_out(data: st.DataObject, name: str) -> None:
    type_, values = VALUES[name]
    held = data.draw(st.lists(values, min_size=1, max_size=6))
    others = data.draw(st.lists(values, max_size=6))
    rows = pa.table({"key": pa.array(held, type_)})
    file = {"path": "p", "stats": statistics_of(rows, {})}
    table = Snapshot(LakeUri("/none"), 0, files={("p", None): file})
    for key in held:
        assert candidates(table, pa.table({"key": pa.array([*others, key], type_)})) == [file]


def test_keys_beyond_the_bounds_leave_a_file_out() -> None:
    rows = pa.table({"id": [5, 9], "name": ["b", "d"]})
    table = Snapshot(LakeUri("/none"), 0, files={("p", None): {"path": "p", "stats": statistics_of(rows, {})}})
    for keys in ({"id": [4, 10]}, {"name": ["a", "e"]}, {"id": [5], "name": ["z"]}):
        assert candidates(table, pa.table(keys)) == []
    assert candidates(table, pa.table({"id": [4, 7]})) != []


def test_what_a_log_says() -> None:
    rows = pa.table(
        {
            "amount": pa.array([Decimal("0.10"), Decimal("12345678901234567.89")], pa.decimal128(20, 2)),
            "at": pa.array([datetime(1, 2, 3, 4, 5, 6, 789_999, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
            "day": pa.array([date(9999, 12, 31), None]),
            "text": ["a" * 40, "\U0010ffff" * 40],
            "ratio": [1.5, math.nan],
            "inner": pa.array(
                [{"x": 1, "y": None}, {"x": 3, "y": None}], pa.struct([("x", pa.int32()), ("y", pa.int32())])
            ),
            "list": pa.array([[1], None], pa.list_(pa.int32())),
        }
    )
    assert '"amount":0.10' in statistics_of(rows, {})
    assert '"amount":12345678901234567.89' in statistics_of(rows, {})
    found = told(rows)
    assert found["numRecords"] == 2
    assert found["minValues"]["at"] == found["maxValues"]["at"] == "0001-02-03T04:05:06.789Z"
    assert found["minValues"]["day"] == "9999-12-31"
    assert (found["minValues"]["text"], found["maxValues"]["text"]) == ("a" * 32, "\U0010ffff" * 40)
    assert found["minValues"]["inner"] == {"x": 1}
    assert found["nullCount"]["inner"] == {"x": 0, "y": 2}
    assert not {"ratio", "list"} & found["minValues"].keys()
    assert set(told(rows, **{"delta.dataSkippingNumIndexedCols": "2"})["nullCount"]) == {"amount", "at"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"numRecords":1}', '{"numRecords":1,"tightBounds":false}'),
        ('{"numRecords":1,"tightBounds":true}', '{"numRecords":1,"tightBounds":false}'),
        ('{"numRecords": 1, "tightBounds" : true}', '{"numRecords": 1, "tightBounds":false}'),
        ('{"numRecords":1,"tightBounds":false}', '{"numRecords":1,"tightBounds":false}'),
        (None, '{"numRecords":5,"tightBounds":false}'),
        (
            '{"numRecords":1,"nullCount":{"tightBounds":0}}',
            '{"numRecords":1,"nullCount":{"tightBounds":0},"tightBounds":false}',
        ),
        ('{"minValues":{"a":1}}', '{"numRecords":5,"tightBounds":false}'),
    ],
)
def test_the_bounds_of_a_file_with_rows_gone_may_be_wider(before: str | None, after: str) -> None:
    assert loosened(before, 5) == after
