"""Adds up a batch's folded rows by what becomes of them (I8): by Spark, or in this process once it has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.lake.sql import spark_name
from include.pipeline_file import LINEAGE, Pipeline
from spark_jobs.changes.dispositions import DIGEST, DISPOSITION, MOVED, OF_DISPOSITION, ROWS, tallied
from spark_jobs.engine.rows import comparable

CONTENT = f"{LINEAGE}_content"  # bigint: the digest of one change


@dataclass(frozen=True)
class Tally:
    """The numbers of one disposition's rows."""

    left: int = 0  # after folding
    rows: int = 0  # before it
    moved: int = 0
    digest: int | None = None
    without_keys: int = 0
    content: int | None = None


NONE = Tally()


def with_content(folded: DataFrame) -> DataFrame:
    """Adds CONTENT."""
    return folded.select("*", _content(folded).alias(CONTENT))


def by_spark(folded: DataFrame, pipeline: Pipeline, content: bool) -> Mapping[str, Tally]:
    """The tallies by disposition, by one query. Args: content: also the digest of all changes."""
    no_keys = " AND ".join(f"{spark_name(name)} IS NULL" for name in pipeline.change.keys)
    found = folded.groupBy(DISPOSITION).agg(
        F.count(F.lit(1)).alias("left"),
        *tallied(),
        F.count_if(F.expr(no_keys)).alias("none"),
        (F.bit_xor(_content(folded)) if content else F.lit(None)).alias("content"),
    )
    return {
        r[DISPOSITION]: Tally(
            left=r["left"],
            rows=r[ROWS],
            moved=r[MOVED],
            digest=r[DIGEST],
            without_keys=r["none"],
            content=r["content"],
        )
        for r in found.collect()
    }


def of_arrow(folded: pa.Table, pipeline: Pipeline) -> Mapping[str, Tally]:
    """The same, of rows in this process. The digest of all changes is among them if they have CONTENT."""
    numbers = {*OF_DISPOSITION, CONTENT, *pipeline.change.keys}
    counted = folded.select([name for name in folded.column_names if name in numbers])
    return {
        name: _of_one(counted.filter(pc.equal(counted[DISPOSITION], name)), pipeline.change.keys)
        for name in pc.unique(counted[DISPOSITION]).to_pylist()
    }


def _of_one(rows: pa.Table, keys: tuple[str, ...]) -> Tally:
    without_keys = np.ones(len(rows), dtype=bool)
    for key in keys:
        without_keys &= pc.is_null(rows[key]).to_numpy()
    return Tally(
        left=len(rows),
        rows=int(pc.sum(rows[ROWS]).as_py()),
        moved=int(pc.sum(rows[MOVED]).as_py()),
        digest=_xor(rows[DIGEST]),
        without_keys=int(without_keys.sum()),
        content=_xor(rows[CONTENT]) if CONTENT in rows.column_names else None,
    )


def _xor(digests: pa.ChunkedArray) -> int | None:
    """All of them together, as Spark's bit_xor has it: null counts for nothing."""
    known: npt.NDArray[Any] = digests.drop_null().to_numpy()
    return int(np.bitwise_xor.reduce(known)) if len(known) else None


def _content(folded: DataFrame) -> Column:
    return F.xxhash64(*comparable(folded.drop(*OF_DISPOSITION).schema))
