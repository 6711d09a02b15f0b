"""Computes the right answer directly from the CSV, and every difference between it and a Delta table.

It shares no code with the product (an import contract in pyproject.toml enforces that). It uses the CSV, pandas, and a
reader of Delta that is not the engine that wrote the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

KEY = ["year", "month", "day", "carrier", "flight", "origin", "sched_dep_time"]


@dataclass(frozen=True)
class Comparison:
    rows_expected: int
    rows_found: int
    keys_missing: int
    keys_extra: int
    mismatches: dict[str, int]  # column -> rows in which it differs; every compared column is listed
    never_departed_expected: int
    never_departed_found: int  # rows whose status is cancelled

    @property
    def equal(self) -> bool:
        return (
            self.rows_expected == self.rows_found
            and not (self.keys_missing or self.keys_extra or any(self.mismatches.values()))
            and self.never_departed_expected == self.never_departed_found
        )


def truth(csv: Path) -> pd.DataFrame:
    """The year as it ended: the CSV's columns, and the status that they imply."""
    flights = pd.read_csv(csv)
    flights["time_hour"] = pd.to_datetime(flights["time_hour"], utc=True)
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]])
    flights["status"] = "arrived"
    flights.loc[flights["arr_time"].isna(), "status"] = "departed"
    flights.loc[flights["dep_time"].isna(), "status"] = "cancelled"
    return flights


def table_rows(table: str, options: dict[str, str] | None) -> pd.DataFrame:
    """The table's rows. deltalake's SQL can read deletion vectors, `to_pyarrow_table` cannot. Args: options: how
    deltalake reaches the table's store."""
    opened = DeltaTable(table, storage_options=options)
    query = QueryBuilder().register("flights", opened).execute("select * from flights")
    return pa.table(query.read_all()).to_pandas()


def compare(expected: pd.DataFrame, found: pd.DataFrame) -> Comparison:
    """Compares every column of the truth, row by row, by key. Two nulls are equal."""
    rows_found = len(found)
    both = expected.merge(found, on=KEY, how="outer", suffixes=("", "__found"), indicator=True)
    joined = both[both["_merge"] == "both"]
    columns = [column for column in expected.columns if column not in KEY]
    mismatches = {column: int(_differ(joined[column], joined[f"{column}__found"]).sum()) for column in columns}
    return Comparison(
        rows_expected=len(expected),
        rows_found=rows_found,
        keys_missing=int((both["_merge"] == "left_only").sum()),
        keys_extra=int((both["_merge"] == "right_only").sum()),
        mismatches={**dict.fromkeys(KEY, 0), **mismatches},
        never_departed_expected=int(expected["dep_time"].isna().sum()),
        never_departed_found=int((found["status"] == "cancelled").sum()),
    )


def _differ(expected: pd.Series, found: pd.Series) -> pd.Series:
    if pd.api.types.is_datetime64_any_dtype(expected):
        expected = pd.to_datetime(expected, utc=True).dt.as_unit("us")
        found = pd.to_datetime(found, utc=True).dt.as_unit("us")
    return ~((expected == found) | (expected.isna() & found.isna()))
