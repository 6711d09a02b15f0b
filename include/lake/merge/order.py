"""Compares the orders of changes with those of rows, as Spark compares structs.

Field by field: null comes before all else, NaN after all else, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]
Path = tuple[str, ...]  # of a column, or of a field within one
Value = tuple[Path, ...]  # what the first of these paths says that is not null


def is_newer(come: Sequence[pa.Array], there: Sequence[pa.Array], again: bool) -> Flags:
    """Whether each change comes after the row that it meets.

    Args:
        come, there: the fields of their orders, the one that weighs most first; each has a value for every change.
        again: an equal order counts, too: the change has made that row, and may be decoded differently today.
    """
    greater = np.zeros(len(come[0]), dtype=bool)
    equal = np.ones(len(come[0]), dtype=bool)
    for mine, theirs in zip(come, there, strict=True):
        field_greater, field_equal = _compared(mine, theirs.cast(mine.type))
        greater |= equal & field_greater
        equal &= field_equal
    return greater | equal if again else greater


def value_of(rows: pa.Table, value: Value) -> pa.Array:
    """A value of each row, by those of its paths that the rows have."""
    there = [(name, fields) for name, *fields in value if _has(rows.schema.field(name).type, fields)]
    found = [pc.struct_field(rows[name], fields) if fields else rows[name] for name, fields in there]
    return pc.coalesce(*found).combine_chunks()


def _has(type_: pa.DataType, fields: Sequence[str]) -> bool:
    """Whether a type has a field, and that one the next, and so on."""
    if not fields:
        return True
    at = type_.get_field_index(fields[0]) if pa.types.is_struct(type_) else -1
    return at >= 0 and _has(type_.field(at).type, fields[1:])


def _compared(mine: pa.Array, theirs: pa.Array) -> tuple[Flags, Flags]:
    """Whether each value of the first is greater, and whether it is equal."""
    if pa.types.is_struct(mine.type):
        raise TypeError(f"an order of the type {mine.type}")
    if pa.types.is_boolean(mine.type):
        mine, theirs = mine.cast(pa.int8()), theirs.cast(pa.int8())
    nothing, other = _flags(pc.is_null(mine)), _flags(pc.is_null(theirs))
    both = ~nothing & ~other
    greater, equal = _flags(pc.greater(mine, theirs)), _flags(pc.equal(mine, theirs))
    if pa.types.is_floating(mine.type):
        nan, other_nan = _flags(pc.is_nan(mine)), _flags(pc.is_nan(theirs))
        greater, equal = greater | (nan & ~other_nan), equal | (nan & other_nan)
    return (both & greater) | (~nothing & other), (both & equal) | (nothing & other)


def _flags(found: pa.Array) -> Flags:
    """As numpy has it; null is false."""
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)
