"""Says how far a long delivery is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

_SECONDS = 10.0  # between two words
_MANY = 100_000  # rows that take a while to send


@dataclass(frozen=True)
class Pace:
    """Args: say: tells a person. where: whose delivery it is."""

    say: Callable[[str], None] = field(default=logging.getLogger(__name__).debug, repr=False)
    where: str = "a sink"

    def through(self, batches: Iterator[pa.RecordBatch], does: str) -> Iterator[pa.RecordBatch]:
        """The same batches. Says every ten seconds how many rows have passed. Args: does: what is done to them."""
        rows, told = 0, time.monotonic()
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if time.monotonic() - told >= _SECONDS:
                told = time.monotonic()
                self.say(f"{self.where}: {does} {rows:,} rows so far")

    def sends(self, written: int, removed: int) -> None:
        """Says before a delivery of many rows what it will change."""
        if written + removed >= _MANY:
            self.say(f"{self.where}: sends {written:,} rows, and {removed:,} keys to remove")
