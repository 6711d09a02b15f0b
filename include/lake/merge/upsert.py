"""Merges changes into a table with one row per key: where a change is newer, its row takes the place of the old one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from include.lake.merge.actions import Actions
from include.lake.merge.fitness import verify_fit
from include.lake.merge.order import Path, Value, is_newer, value_of
from include.lake.merge.positions import met_rows, sql_of
from include.lake.merge.replacing import RowCounts, replaced, with_old_values
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError

_STAMP, _PLACE = "_lakemark_stamp", "_lakemark_place_"  # of a row that is met


@dataclass(frozen=True)
class Upsert:
    """A batch's changes for one table, one per key.

    Args:
        rows: with columns of the table; those that they lack keep their values. keys: names of columns. order: the
            values that order rows, the one that weighs most first. stamp: where this is null, a row is from another
            writer, and older than any change. again: an equal order counts, too (`is_newer`). bytes_max: of the values
            that rows keep; None: however many.
    """

    rows: pa.Table
    keys: tuple[str, ...]
    order: tuple[Value, ...]
    stamp: Path
    again: bool = False
    bytes_max: int | None = None

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table)
        others = [name for name in table.column_names if name not in self.rows.column_names]
        places = {f"{_PLACE}{n}": sql_of(value) for n, value in enumerate(self.order)}
        wanted = {_STAMP: sql_of((self.stamp,)), **places, **{name: sql_of(((name,),)) for name in others}}
        met = met_rows(table, self.rows.select([*self.keys]), wanted, bytes_max=self.bytes_max)
        if len(np.unique(met.key)) != len(met.key):
            raise UnfitError("a key that has several rows")
        newer = np.zeros(0, dtype=bool)
        if len(met.key):
            meeting = pa.array(met.key)
            come = [value_of(self.rows, value).take(meeting) for value in self.order]
            newer = is_newer(come, [met.values[place].combine_chunks() for place in places], self.again)
            newer |= met.values[_STAMP].is_null().to_numpy()
        old = np.full(len(self.rows), -1, dtype=np.int64)  # the row that a change takes the place of
        old[met.key[newer]] = np.flatnonzero(newer)
        is_stale = np.zeros(len(self.rows), dtype=bool)
        is_stale[met.key[~newer]] = True
        written = np.flatnonzero(~is_stale)
        rows = self.rows if len(written) == len(self.rows) else self.rows.take(pa.array(written))
        if others and len(met.key):
            rows = with_old_values(rows, met.values.select(others), old[written])
        updated = int(newer.sum())
        counts = RowCounts(sources=len(self.rows), inserted=len(written) - updated, updated=updated)
        return replaced(table, met.only(newer), rows, counts, matched_by=self.keys)
