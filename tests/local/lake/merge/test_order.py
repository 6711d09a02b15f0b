"""How orders of changes are compared: as Spark compares structs."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.lake.merge.order import is_newer, value_of

FLOATS = st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan])
TEXTS = st.sampled_from(["", "a", "b", "ä", "\U0001f600", "￿"])
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-2, 2)),
    (pa.float64(), FLOATS),
    (pa.string(), TEXTS),
    (pa.binary(), TEXTS.map(str.encode)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(10, 2), st.sampled_from([Decimal("1.10"), Decimal("-1.10"), Decimal(0)])),
    (pa.timestamp("us", "UTC"), st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)])),
]


def rank(value: Any) -> tuple[Any, ...]:
    """A value's place among those of its kind."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value + 0.0)
    return (1, value.encode() if isinstance(value, str) else value)


@settings(deadline=None)
@given(st.data())
def test_as_spark_compares_structs(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    order = st.tuples(*(st.none() | values for _, values in kinds))
    pairs = data.draw(st.lists(st.tuples(order, order), min_size=1, max_size=20))
    again = data.draw(st.booleans())

    def values(orders: list[tuple[Any, ...]]) -> list[pa.Array]:
        return [pa.array([order[n] for order in orders], type_) for n, (type_, _) in enumerate(kinds)]

    found = is_newer(values([come for come, _ in pairs]), values([there for _, there in pairs]), again)
    for (come, there), newer in zip(pairs, found, strict=True):
        mine, theirs = [rank(value) for value in come], [rank(value) for value in there]
        assert newer == (mine > theirs or (again and mine == theirs)), (come, there)


def test_an_order_has_no_structs() -> None:
    inner = pa.array([{"a": 1}])
    with pytest.raises(TypeError):
        is_newer([inner], [inner], again=False)


def test_a_value_is_the_first_that_a_row_has_and_that_is_not_null() -> None:
    rows = pa.table({"seq": [1, 2], "of": [{"order": {"seq": 7}}, {"order": None}]})
    assert value_of(rows, (("of", "order", "seq"), ("seq",))).to_pylist() == [7, 2]
    assert value_of(rows, (("of", "order", "none"), ("of", "none"), ("seq",))).to_pylist() == [1, 2]
