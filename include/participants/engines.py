"""Says by which engine a batch is written into a table: the lane (`include.lake.merge`, no JVM), or Spark.

The lane writes little and starts nothing, so it is faster for small batches. Spark does everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from include.lake import delta_tables
from include.lake.merge.fitness import verify_fit
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.statistics import rows_at_most
from include.lake.merge.unfit import NoLogError, UnfitError
from include.lake.uri import LakeUri
from include.pipeline_file.table_spec import AppendSpec, TableSpec
from include.settings import Settings

# What a batch takes of the job's memory at the most, as measured (docs/performance.md says how).
_OF_A_RECORD, _OF_A_CELL = 500, 50  # bytes; a cell is a record's value of a column
_OF_A_BYTE = 3  # of the records' values, as Kafka holds them, and of the rows that are made of them
_OF_COMPACTION = 6  # times the bytes that it may merge, as `Compaction` says
_COMPUTED = 10  # times as much, where Spark computes rows from rows of the table: all of them go there and back


@dataclass(frozen=True)
class Choice:
    """An engine for one table, and why.

    Args:
        table: the lane's look at the table. bytes_max: of its rows that the lane may bring to memory; None: however
            many.
    """

    engine: Literal["lane", "spark"]
    why: str
    table: Snapshot | None = None
    bytes_max: int | None = None

    def rows_at_most(self, uri: LakeUri) -> int:
        """How many rows the table's files hold, gone or not; 0 if there is no table. Args: uri: where it lies."""
        try:
            return rows_at_most((self.table or Snapshot.of(uri)).files.values())
        except UnfitError:
            return delta_tables.rows_at_most(uri)

    @property
    def in_words(self) -> str:
        return f"{self.engine}: {self.why}"


def bytes_max(settings: Settings, specs: Iterable[TableSpec | AppendSpec]) -> int | None:
    """How many bytes a batch may bring to each of these tables without Spark, known only once they are read; None:
    however many.

    Args:
        specs: of the tables that get something of each record, without Spark.
    """
    if settings.merge_engine == "lane":
        return None
    parts = sum(_OF_A_BYTE * (_COMPUTED if _is_computed(spec) else 1) for spec in specs)
    return settings.lane_memory_mb * 1_000_000 // max(1, parts)


def compaction_bytes(settings: Settings) -> int:
    """How many bytes of rows compaction may merge at once."""
    return settings.lane_memory_mb * 1_000_000 // _OF_COMPACTION


def choose(settings: Settings, spec: TableSpec | AppendSpec, uri: LakeUri, width: int, is_chunk: bool) -> Choice:
    """The engine for a batch's part in a table.

    Args:
        width: the most records that the batch may read. is_chunk: it is a backfill's.

    Raises:
        TableDamaged: the table's log cannot be read.
    """
    setting = settings.merge_engine
    if setting == "spark":
        return Choice("spark", "LAKEMARK_MERGE_ENGINE says so")
    if spec.kind == "append" and is_chunk:
        return Choice("spark", "a chunk takes the place of records that may be there")
    of_a_record = max(_OF_A_RECORD, _OF_A_CELL * len(spec.columns)) * (_COMPUTED if _is_computed(spec) else 1)
    records_max = settings.lane_memory_mb * 1_000_000 // of_a_record
    if setting != "lane" and width > records_max:
        return Choice("spark", f"more than {records_max:,} records")
    try:
        table = Snapshot.of(uri)
        verify_fit(table, only_appends=spec.kind == "append")
    except NoLogError:
        return Choice("spark", "the table is not there yet, and its first batch makes it")
    except UnfitError as unfit:
        return Choice("spark", f"the table has {unfit}")
    why = "LAKEMARK_MERGE_ENGINE says so" if setting == "lane" else f"at most {records_max:,} records"
    return Choice("lane", why, table, bytes_max(settings, [spec]))


def _is_computed(spec: TableSpec | AppendSpec) -> bool:
    """Whether a row depends on more than its newest change."""
    return isinstance(spec, TableSpec) and (spec.kind == "scd2" or spec.truncates or bool(spec.partial_columns))
