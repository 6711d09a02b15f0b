"""A part of a batch: what of it goes into one table."""

from __future__ import annotations

from dataclasses import dataclass

from include.protocol.counts import SourceCounts
from include.quality.verdict import Verdict
from spark_jobs.changes.kept_rows import KeptRows


@dataclass(frozen=True)
class Part:
    """What of a batch goes into one table."""

    rows: KeptRows
    counts: SourceCounts
    digest: str  # of these rows, and of the program that has made them
    is_empty: bool = False
    set_aside: str | None = None  # digest of the records for the quarantine and of their reasons
    truncated: bool = False  # a truncate is among the changes
    quality: Verdict | None = None
