"""Says by which engine a batch is written into a table: the lane (`include.lake.merge`, no JVM), or Spark.

The lane writes little and starts nothing, so it is faster for small batches. Spark does everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from include.lake.merge.fitness import verify_fit
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.pipeline_file.table_spec import AppendSpec, TableSpec
from include.settings import MergeEngine

# Of a batch: what it brings is in the job's memory at once.
RECORDS_MAX = 200_000
_CELLS_MAX = 100 * RECORDS_MAX  # records times columns


@dataclass(frozen=True)
class Choice:
    """An engine for one table, and why.

    Args:
        table: the lane's look at the table.
    """

    engine: Literal["lane", "spark"]
    why: str
    table: Snapshot | None = None

    @property
    def in_words(self) -> str:
        return f"{self.engine}: {self.why}"


def choose(setting: MergeEngine, spec: TableSpec | AppendSpec, uri: LakeUri, width: int, is_chunk: bool) -> Choice:
    """The engine for a batch's part in a table.

    Args:
        width: the most records that the batch may read. is_chunk: it is a backfill's.

    Raises:
        TableDamaged: the table's log cannot be read.
    """
    if setting == "spark":
        return Choice("spark", "LAKEMARK_MERGE_ENGINE says so")
    if spec.kind == "append" and is_chunk:
        return Choice("spark", "a chunk takes the place of records that may be there")
    records_max = min(RECORDS_MAX, _CELLS_MAX // max(1, len(spec.columns)))
    if setting != "lane" and width > records_max:
        return Choice("spark", f"more than {records_max:,} records")
    if not log_store_of(uri).exists():
        return Choice("spark", "the table is not there yet, and its first batch makes it")
    try:
        table = Snapshot.of(uri)
        verify_fit(table, only_appends=spec.kind == "append")
    except UnfitError as unfit:
        return Choice("spark", f"the table has {unfit}")
    return Choice("lane", f"at most {records_max:,} records" if setting == "auto" else "LAKEMARK_MERGE_ENGINE", table)
