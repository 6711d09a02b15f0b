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
from include.protocol.batch import Batch
from include.settings import MergeEngine

RECORDS_MAX = 200_000  # of a batch: its changes are in this process's memory at once


@dataclass(frozen=True)
class Choice:
    """An engine for one table, and why.

    Args:
        why: words for people, to be read after "lane, for" or "Spark, for". table: the lane's look at the table.
    """

    engine: Literal["lane", "spark"]
    why: str
    table: Snapshot | None = None


def choose(setting: MergeEngine, spec: TableSpec | AppendSpec, batch: Batch, uri: LakeUri) -> Choice:
    """The engine for a batch's part in a table. Raises TableDamaged: the table's log cannot be read."""
    why = _why_spark(setting, spec, batch)
    if why is None and not log_store_of(uri).exists():
        why = "a table that is not there yet"
    if why is not None:
        return Choice("spark", why)
    try:
        table = Snapshot.of(uri)
        verify_fit(table, only_appends=spec.kind == "append")
    except UnfitError as unfit:
        return Choice("spark", str(unfit))
    return Choice("lane", f"at most {batch.width:,} records", table)


def _why_spark(setting: MergeEngine, spec: TableSpec | AppendSpec, batch: Batch) -> str | None:
    if setting == "spark":
        return "LAKEMARK_MERGE_ENGINE says so"
    if spec.kind == "append" and batch.is_chunk:
        return "a chunk, which takes the place of records that may be there"
    if setting != "lane" and batch.width > RECORDS_MAX:
        return f"more than {RECORDS_MAX:,} records"
    return None
