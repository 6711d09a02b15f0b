"""Replaces the rows of some keys by what others compute from them: for tables whose rows depend on several changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from include.lake.arrow import plainly_named
from include.lake.merge.actions import Actions
from include.lake.merge.fitness import verify_fit
from include.lake.merge.order import Value, value_of
from include.lake.merge.positions import met_rows, sql_of
from include.lake.merge.replacing import RowCounts, replaced, with_old_values
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError

GONE = "_lakemark_gone"  # of a computed row: the row that the table has is deleted


@dataclass(frozen=True)
class Patch:
    """What becomes of the rows of some keys.

    Args:
        keys: a null is a key, too. compute: gets the table's rows of these keys, and returns the rows to
            write, with GONE. A column that they lack keeps its values. identity: the values that tell rows apart: a
            computed row takes the place of the row that has the same. bytes_max: of the rows that `compute` gets;
            None: however many. sources: how many rows it is computed from; None: as many as there are then.
    """

    keys: pa.Table
    identity: tuple[Value, ...]
    compute: Callable[[pa.Table], pa.Table]
    bytes_max: int | None = None
    sources: int | None = None

    def over(self, table: Snapshot) -> Actions:
        """See `Change`."""
        verify_fit(table)
        whole = {name: sql_of(((name,),)) for name in table.column_names}
        met = met_rows(table, _distinct(self.keys), whole, bytes_max=self.bytes_max)
        there = met.values.cast(table.schema) if len(met.key) else table.schema.empty_table()
        computed = self.compute(there)
        old = self._places(computed, there)
        is_gone = np.asarray(pc.fill_null(computed[GONE], False).to_numpy(), dtype=bool)
        others = [name for name in there.column_names if name not in computed.column_names]
        written = np.flatnonzero(~is_gone)
        rows = computed.drop_columns(GONE).take(pa.array(written))
        rows = with_old_values(rows, there.select(others), old[written])
        taken = np.zeros(len(there), dtype=bool)
        taken[old[old >= 0]] = True
        counts = RowCounts(
            sources=len(computed) if self.sources is None else self.sources,
            inserted=int((~is_gone & (old < 0)).sum()),
            updated=int((~is_gone & (old >= 0)).sum()),
            deleted=int((is_gone & (old >= 0)).sum()),
        )
        return replaced(table, met.only(taken), rows, counts, matched_by=[".".join(path) for path, *_ in self.identity])

    def _places(self, computed: pa.Table, there: pa.Table) -> npt.NDArray[np.int64]:
        """For each computed row, the place of the row that it takes the place of; -1: there is none."""
        places = np.full(len(computed), -1, dtype=np.int64)
        if not len(computed) or not len(there):
            return places
        same = " AND ".join(f"a.i{n} IS NOT DISTINCT FROM b.i{n}" for n in range(len(self.identity)))
        with duckdb.connect(config={"threads": 2}) as database:
            database.execute("SET TimeZone = 'UTC'")
            database.register("a", self._identities(computed))
            database.register("b", self._identities(there))
            found = database.sql(f"SELECT a.place AS new, b.place AS old FROM a JOIN b ON {same}").to_arrow_table()
        new, old = found["new"].to_numpy(), found["old"].to_numpy()
        if len(np.unique(new)) != len(new) or len(np.unique(old)) != len(old):
            raise UnfitError("a key that has several rows")
        places[new] = old
        return places

    def _identities(self, rows: pa.Table) -> pa.Table:
        own = {f"i{n}": value_of(rows, value) for n, value in enumerate(self.identity)}
        return pa.table({**own, "place": pa.array(np.arange(len(rows), dtype=np.int64))})


def _distinct(keys: pa.Table) -> pa.Table:
    """Each key once."""
    plain = plainly_named(keys)
    return plain.group_by(plain.column_names).aggregate([]).rename_columns(keys.column_names)
