"""A made-up stream of orders that change, and the table that it changes.

Of every hundred events thirty are new orders, the others change one that is there: with high locality a recent one
(their ages are exponentially distributed, a hundredth of the table on average unless told otherwise), else any.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "order_id BIGINT, order_date DATE, customer STRING, status STRING, amount DECIMAL(12, 2), updated_at TIMESTAMP"
_BEGAN = datetime(2026, 6, 1, tzinfo=UTC)
_FIRST_DAY, _DAYS = "2026-01-01", 150
_NEW = 0.3


class Change(NamedTuple):
    """A row as it is now; names and types as in SCHEMA."""

    order_id: int
    order_date: date
    customer: str
    status: str
    amount: Decimal
    updated_at: datetime


@dataclass
class Orders:
    """Changes of a table that begins with `rows` orders; the same seed gives the same changes."""

    rows: int
    is_local: bool
    seed: int = 1
    age: int | None = None  # of the orders that change, in orders since, on average; None: a hundredth of the table
    sent: int = 0
    _random: random.Random = field(init=False)
    _next_id: int = field(init=False)

    def __post_init__(self) -> None:
        self._random, self._next_id = random.Random(self.seed), self.rows

    def changes(self, count: int) -> Iterator[Change]:
        """The next ones; each is newer than all before."""
        for _ in range(count):
            order_id = self._order_id()
            at = _BEGAN + timedelta(milliseconds=self.sent)
            cents = (order_id * 31 + self.sent) % 1_000_000
            status = ("paid", "packed", "sent", "done")[order_id % 7 % 4]
            yield Change(order_id, at.date(), f"customer {order_id % 9973}", status, Decimal(cents).scaleb(-2), at)
            self.sent += 1

    def events(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Order ids, and the next changes in JSON."""
        for order_id, day, customer, status, amount, at in self.changes(count):
            yield (
                order_id,
                (
                    f'{{"order_id":{order_id},"order_date":"{day}","customer":"{customer}",'
                    f'"status":"{status}","amount":{amount},'
                    f'"updated_at":"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}Z"}}'
                ).encode(),
            )

    def _order_id(self) -> int:
        if self._random.random() < _NEW:
            self._next_id += 1
            return self._next_id - 1
        if self.is_local:
            return max(0, self._next_id - 1 - int(self._random.expovariate(1 / (self.age or self.rows / 100))))
        return self._random.randrange(self._next_id)


def first_rows(spark: SparkSession, rows: int) -> DataFrame:
    """The table before the first change, in the order of its keys."""
    whole = spark.range(rows).select(
        F.col("id").alias("order_id"),
        F.date_add(F.lit(_FIRST_DAY).cast("date"), (F.col("id") * _DAYS / rows).cast("int")).alias("order_date"),
        F.concat(F.lit("customer "), F.col("id") % 9973).alias("customer"),
        F.lit("placed").alias("status"),
        (F.col("id") % 1_000_000 / 100).cast("decimal(12, 2)").alias("amount"),
        F.lit(_FIRST_DAY).cast("timestamp").alias("updated_at"),
    )
    return whole.repartitionByRange(max(1, rows // 1_000_000), "order_id").sortWithinPartitions("order_id")
