"""Rows of a batch for one table, kept for the attempt: by Spark; or, if they are few, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from include.protocol.batch import Batch
from spark_jobs.changes.stamp import stamped, stamped_here


@dataclass
class KeptRows:
    """Rows for one table.

    Args:
        make_frame: gives them to Spark. arrow: the same rows in this process; None: they stay with Spark. make_hinted:
            adds a hint for a join that needs memory; None: there is no such hint.
    """

    make_frame: Callable[[], DataFrame]
    arrow: pa.Table | None = None
    make_hinted: Callable[[DataFrame], DataFrame] | None = None

    def stamped(self, batch: Batch) -> KeptRows:
        """Rows that say which batch brings them."""
        here = None if self.arrow is None else stamped_here(self.arrow, batch)
        return KeptRows(lambda: stamped(self.make_frame(), batch), here, self.make_hinted)

    @cached_property
    def frame(self) -> DataFrame:
        return self.make_frame()

    @cached_property
    def hinted(self) -> DataFrame:
        """With the hint, if there is one."""
        return self.frame if self.make_hinted is None else self.make_hinted(self.frame)

    @property
    def has_hint(self) -> bool:
        return self.make_hinted is not None
