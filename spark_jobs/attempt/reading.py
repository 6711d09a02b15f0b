"""Reads a batch's records: once, and anew where more than one pass turns out to need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from include.fault_points import fault_point
from include.protocol.errors import RetryableError
from spark_jobs.attempt.work import Work
from spark_jobs.changes.dispositions import digest_in_words, digest_of_record
from spark_jobs.changes.records import Volume, is_of_a_timestamp, volume_columns, volume_of
from spark_jobs.changes.reduction import Reduced
from spark_jobs.engine.rows import first_row

T = TypeVar("T")


@dataclass
class Reading:
    """The records of a batch.

    Args:
        keeps: they are kept for the attempt at their first use. Else every use reads them, and the first one must not
            be below a checkpoint, because Spark reports nothing of what it observes there.
    """

    spark: SparkSession
    work: Work
    with_headers: bool
    keeps: bool

    def __post_init__(self) -> None:
        records = self.work.read(self.spark, self.with_headers, keeps=self.keeps)
        # Counted in the pass that reads them, before anything that could lose one (I8).
        self._seen = None if self.keeps else Observation()
        self._volume: Volume | None = None
        self.is_read = False
        self.records = records if self._seen is None else records.observe(self._seen, *volume_columns())

    def at_first_use(self, use: Callable[[], T]) -> T:
        """Uses the records for the first time, which reads them; then looks whether Kafka has held them to the end."""
        try:
            found = use()
        except Exception as error:
            if not is_of_a_timestamp(error):
                raise
            self._read_anew(safely=True)
            found = use()
        self.is_read = True
        fault_point("attempt.after_read")
        self.work.verify_source()
        return found

    def volume(self) -> Volume:
        """How much it is: as counted at their first use, or else by a query, which reads those that are not kept."""
        if self._volume is None:
            self._volume = volume_of(self.records) if self._seen is None else Volume(*self._seen.get.values())
        return self._volume

    def keep(self) -> None:
        """Makes sure that further uses find the records kept."""
        if not self.keeps:
            self._read_anew()

    def keep_set_aside(self, judged: Callable[[], DataFrame], counted: Reduced) -> None:
        """Makes sure that the records for the quarantine are kept, and that they are those that were counted.

        Args:
            judged: what `decode` makes of `records`.
        """
        if self.keeps:
            return
        self._read_anew()
        found = first_row(judged().where("reason IS NOT NULL").agg(F.bit_xor(digest_of_record())))[0]
        self.work.verify_source()
        if digest_in_words(found) != counted.set_aside:
            raise RetryableError(
                what="the source gave other records when it was read once more; nothing of them has landed",
                where=str(self.work.batch),
                expected=f"{counted.counts.quarantined:,} records for the quarantine, digest {counted.set_aside}",
                found=f"others, digest {digest_in_words(found)}",
                action="try again; if it stays so, look at what happens to the topic",
            )

    def _read_anew(self, safely: bool = False) -> None:
        self.records = self.work.read(self.spark, self.with_headers, safely)
        self.keeps, self._seen, self._volume = True, None, None
