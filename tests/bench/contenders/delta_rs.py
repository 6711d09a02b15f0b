"""delta-rs, which needs no JVM."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from deltalake import DeltaTable

from tests.bench.contenders.contender import Contender


@dataclass
class DeltaRs(Contender):
    """A Kafka client, Arrow, and deltalake's MERGE in this process."""

    name = "delta-rs MERGE"
    _next: dict[str, int] = field(default_factory=dict)

    def lay(self) -> None:
        """A plain table: it writes neither clustered tables nor deletion vectors."""
        self.arena.feed.first_rows(self.arena.spark).write.format("delta").save(self.table)

    def run(self) -> float:
        arena, began = self.arena, time.monotonic()
        ends = arena.ends()
        lines: list[bytes] = []
        consumer = Consumer(
            {"bootstrap.servers": arena.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
        )
        try:
            consumer.assign([KafkaPartition(arena.topic, int(p), self._next.get(p, 0)) for p in ends])
            wanted = sum(ends.values()) - sum(self._next.values())
            while len(lines) < wanted:
                lines += [m.value() for m in consumer.consume(min(10_000, wanted - len(lines)), timeout=10)]
        finally:
            consumer.close()
        self._next = ends
        self._merge(arena.feed.arrow(lines))
        return time.monotonic() - began

    def _merge(self, changes: pa.Table) -> None:
        feed = self.arena.feed
        ordered = changes.sort_by([*((key, "ascending") for key in feed.keys), (feed.order, "descending")])
        merge = DeltaTable(self.table).merge(
            ordered.filter(_differs_from_before(ordered.select(feed.keys))),
            feed.same_key("t", "s"),
            source_alias="s",
            target_alias="t",
        )
        merge.when_matched_update_all(feed.is_newer("s", "t")).when_not_matched_insert_all().execute()


def _differs_from_before(keys: pa.Table) -> pa.Array:
    columns = [column.combine_chunks() for column in keys.columns]
    differs = reduce(pc.or_, (pc.not_equal(column[1:], column[:-1]) for column in columns))
    return pa.concat_arrays([pa.array([True]), differs])
