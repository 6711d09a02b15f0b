"""Statistics of data files, in the JSON of a log: of a new file; and as bounds of the keys in one that is there.

Source: Delta protocol, "Per-file Statistics". Bounds may be wider than the values, and never narrower: timestamps are
cut to milliseconds, and long texts are cut short.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from include.protocol.json_data import JsonMapping, JsonObject

_INDEXED_COLUMNS = 32  # Delta's default for `delta.dataSkippingNumIndexedCols`
_TEXT_MAX = 32  # characters of a text's bound
_HIGHEST = "\U0010ffff"  # comes after every other character
_TIGHT = re.compile(r'"tightBounds"\s*:\s*true')
_MILLISECOND = np.timedelta64(1000, "us")


def statistics_of(rows: pa.Table, properties: JsonMapping) -> str:
    """The statistics of a new file with these rows. Args: properties: of the table."""
    lowest: JsonObject = {}
    highest: JsonObject = {}
    nulls: JsonObject = {}
    left = int(properties.get("delta.dataSkippingNumIndexedCols", _INDEXED_COLUMNS))
    for path, values in (leaf for name in rows.column_names for leaf in leaves(rows[name], (name,))):
        if left == 0:
            break
        left -= 1
        _put(nulls, path, values.null_count)
        if values.null_count == len(values) or not _has_bounds(values):
            continue
        ends = pc.min_max(values)
        low, high = _as_python(ends["min"]), _as_python(ends["max"])
        if low is not None and high is not None:
            _put(lowest, path, _told(low, values.type, is_upper=False))
            _put(highest, path, _told(high, values.type, is_upper=True))
    return _json({"numRecords": rows.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls})


def rows_told(file: JsonObject) -> int | None:
    """How many rows a file has, gone or not, by its statistics; None: they do not say. Args: file: its `add`."""
    told: Any = json.loads(file["stats"]).get("numRecords") if file.get("stats") else None
    return None if told is None else int(told)


def rows_at_most(files: Iterable[JsonObject]) -> int:
    """How many rows files have, gone or not, as far as their statistics say it. Args: files: the `add` of each."""
    return sum(rows_told(file) or 0 for file in files)


def loosened(statistics: str | None, rows: int) -> str:
    """The statistics of a file whose rows are partly gone: its bounds may be wider than what is left. The text stays
    as it is otherwise: a decimal would not survive a float.

    Args:
        rows: in the file, gone or not. A file with a deletion vector must tell it.
    """
    if statistics is None or (told := json.loads(statistics)).get("numRecords") is None:
        return _json({"numRecords": rows, "tightBounds": False})
    if "tightBounds" in told:
        return _TIGHT.sub('"tightBounds":false', statistics)
    return statistics.rstrip()[:-1] + ',"tightBounds":false}'


def bound(value: Any, type_: pa.DataType, is_upper: bool) -> Any:  # Any: a value of any column's type
    """A bound from a log, as numpy compares values of the type; None if nothing is known."""
    try:
        return _bound(value, type_, is_upper)
    except (OverflowError, ValueError):  # a day before the year 1, or after 9999, or in a form that is not known
        return None


def _bound(value: Any, type_: pa.DataType, is_upper: bool) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(type_):
        moment = datetime.fromisoformat(value)  # Spark writes its session's time zone
        moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        at = np.datetime64(moment, "us")
        return at + _MILLISECOND if is_upper else at
    if pa.types.is_date(type_):
        return np.datetime64(value, "D")
    return value


def leaves(values: pa.ChunkedArray, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], pa.ChunkedArray]]:
    """A column, or all fields of a struct, of structs in it and so on. Args: path: where these values are."""
    if not pa.types.is_struct(values.type):
        yield path, values
        return
    for place, part in enumerate(values.type):
        yield from leaves(pc.struct_field(values, place), (*path, part.name))


def _has_bounds(values: pa.ChunkedArray) -> bool:
    type_ = values.type
    if pa.types.is_floating(type_):  # NaN has a place in Spark's order, and none in Arrow's
        return not pc.any(pc.invert(pc.is_finite(values))).as_py()
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string)
    return any(is_kind(type_) for is_kind in kinds)


def _as_python(end: pa.Scalar) -> Any:  # Any: a value of any column's type
    """A value; None for a moment or a day before the year 1, or after 9999."""
    if not pa.types.is_temporal(end.type):
        return end.as_py()
    try:
        return end.as_py()
    except (OverflowError, ValueError):
        return None


def _told(value: Any, type_: pa.DataType, is_upper: bool) -> Any:
    """A bound, as a log tells it."""
    if pa.types.is_timestamp(type_):
        text = f"{value:%H:%M:%S}.{value.microsecond // 1000:03}"
        return f"{value.date().isoformat()}T{text}{'Z' if type_.tz else ''}"
    if pa.types.is_date(type_):
        return value.isoformat()
    if not pa.types.is_string(type_) or len(value) <= _TEXT_MAX:
        return value
    end = _TEXT_MAX
    while is_upper and end < len(value) and value[end] == _HIGHEST:
        end += 1  # what stands for the rest must come after it
    return value[:end] + (_HIGHEST if is_upper and end < len(value) else "")


def _put(into: JsonObject, path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _json(value: JsonObject) -> str:
    """JSON with decimals as they are, digit by digit. Python's own writer knows floats only."""
    mark, decimals = uuid.uuid4().hex, []

    def told(one: object) -> str:
        assert isinstance(one, Decimal), one
        decimals.append(format(one, "f"))
        return f"{mark}{len(decimals) - 1}."

    text = json.dumps(value, default=told, separators=(",", ":"), ensure_ascii=False)
    for place, decimal in enumerate(decimals):
        text = text.replace(f'"{mark}{place}."', decimal)
    return text
