"""A steady load of changes on many topics, and how long they take until they can be read."""

from __future__ import annotations

import heapq
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from random import Random
from typing import Any

from confluent_kafka import Producer

from include.control.lag import Lookout
from include.pipeline_file import Pipeline
from include.protocol.ranges import OffsetRange
from tests.support.topics import Sent
from tests.support.waiting import wait_until
from tests.support.world import World, as_dict, newest_by_key

_KEYS = 500
_TICK_SECONDS = 0.1


class Load(threading.Thread):
    """Sends changes to all topics until told to stop; knows when each was acknowledged.

    Args:
        per_minute: records to each topic, evenly; the topics take turns. before: what was sent to them before.
    """

    def __init__(
        self, servers: str, topics: list[str], per_minute: float, seed: int, before: Sequence[Sent] = ()
    ) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 20})
        self.topics, self.pause, self.random = topics, 60 / per_minute, Random(seed)
        self.sent = [*before]
        self.acknowledged: dict[tuple[str, int, int], float] = {}
        self.enough = threading.Event()

    def run(self) -> None:
        seq, now = len(self.sent), time.monotonic()
        due = [(now + self.pause * n / len(self.topics), topic) for n, topic in enumerate(self.topics)]
        while not self.enough.wait(_TICK_SECONDS):
            while due[0][0] <= time.monotonic():
                at, topic = due[0]
                seq += 1
                self.send(topic, {"id": self.random.randrange(_KEYS), "seq": seq, "name": f"n{seq}", "op": "u"})
                heapq.heapreplace(due, (at + self.pause, topic))
            self.producer.flush()

    def send(self, topic: str, value: dict[str, Any]) -> None:
        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            place = (topic, message.partition(), message.offset())
            self.sent.append(Sent(*place, value))
            self.acknowledged[place] = time.time()

        self.producer.produce(topic, json.dumps(value).encode(), partition=value["id"] % 2, on_delivery=delivered)

    def first_records(self, read: Callable[[], None]) -> None:
        """A record to each topic, so that its table is there, and Spark is warm. How long they took is of no interest.

        Args:
            read: waits until they are read.
        """
        for topic in self.topics:
            self.send(topic, {"id": 0, "seq": 0, "name": "first", "op": "u"})
        self.producer.flush()
        read()
        self.acknowledged.clear()

    def sent_to(self, pipeline: Pipeline) -> list[Sent]:
        return [record for record in self.sent if record.topic in pipeline.source.topics]


def wait_seconds(seconds: float) -> None:
    """The load's own time: this is what the run is for."""
    threading.Event().wait(seconds)


def wait_until_read(world: World, pipelines: Iterable[Pipeline], seconds: float) -> None:
    """Waits until nothing waits in Kafka for any pipeline, and each knows where it begins."""
    lookouts = [Lookout(world.settings, pipeline) for pipeline in pipelines]
    wait_until(
        lambda: not any(seen.records or seen.unmerged or seen.urgent for seen in (one.look() for one in lookouts)),
        seconds,
    )


def differing(world: World, pipelines: Iterable[Pipeline], load: Load) -> list[str]:
    """The pipelines whose tables are not what the oracle says."""
    return [p.name for p in pipelines if as_dict(world.rows(p)) != newest_by_key(load.sent_to(p))]


def latencies(world: World, pipelines: Iterable[Pipeline], load: Load) -> dict[str, list[float]]:
    """Seconds, from the ledgers and the producer's acknowledgements."""
    to_row, to_start, to_settled = [], [], []
    for pipeline in pipelines:
        rows = world.coordinator(pipeline).ledger.rows()
        ranges = {r["batch_id"]: r["details"]["ranges"] for r in rows if r["event"] == "planned"}
        started: dict[int, float] = {}
        for row in rows:
            at, batch_id = row["recorded_at"].timestamp(), row["batch_id"]
            if row["event"] == "attempt_started":
                started.setdefault(batch_id, at)
            if row["event"] != "committed":
                continue
            landed = datetime.fromisoformat(row["details"]["committed_at"]).timestamp()
            read = places(map(OffsetRange.from_json, ranges[batch_id]))
            known = sorted(load.acknowledged[place] for place in read if place in load.acknowledged)
            if not known:  # it was sent before this load
                continue
            to_row += [landed - moment for moment in known]
            to_start.append(started[batch_id] - known[0])
            to_settled.append(at - landed)
    return {
        "record acknowledged to row readable": to_row,
        "oldest record acknowledged to attempt started": to_start,
        "commit to settled": to_settled,
    }


def places(ranges: Iterable[OffsetRange]) -> Iterable[tuple[str, int, int]]:
    return ((r.topic, r.partition, offset) for r in ranges for offset in range(r.start_offset, r.end_offset))


def spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return f"{seconds} s"
    hundredths = statistics.quantiles(seconds, n=100)
    middle, most = hundredths[49], hundredths[94]
    return f"median {middle:.1f} s, 95% below {most:.1f} s, at most {max(seconds):.1f} s ({len(seconds):,})"
