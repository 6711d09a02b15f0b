"""How a pipeline did over hours or days: lag, throughput, seconds per batch, quarantine. Pure.

A point is the sum or the worst of a bucket of time. The lag is known where a batch was planned: its own records, and
those that the source held beyond them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from include.protocol.json_data import JsonMapping, JsonObject

POINTS = 60


@dataclass
class _Point:
    batches: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)  # of attempts that landed
    lag: int | None = None
    at_least: bool = False  # the lag may have been higher: the event does not say what was left

    def to_json(self, at: datetime) -> JsonObject:
        read, aside = self.counts.get("read", 0), self.counts.get("quarantined", 0)
        return {
            "at": at.isoformat(),
            "batches": self.batches,
            "read": read,
            "quarantined": aside,
            "seconds": round(sum(self.seconds) / len(self.seconds), 2) if self.seconds else None,
            "seconds_max": round(max(self.seconds), 2) if self.seconds else None,
            "lag_records": self.lag,
            "lag_at_least": self.at_least,
        }


def trend(rows: Iterable[JsonMapping], since: datetime, until: datetime) -> list[JsonObject]:
    """`POINTS` points of equal length, oldest first: at (when its bucket begins), batches (committed), read and
    quarantined (records), seconds and seconds_max (of attempts that landed), lag_records (the highest when a batch was
    planned; null: none was), lag_at_least.

    Args:
        rows: events `planned`, `attempt_ended`, `committed` of generations (not backfills), with details as data.
    """
    width = (until - since) / POINTS
    points = [_Point() for _ in range(POINTS)]
    for row in rows:
        place = int((row["recorded_at"] - since) / width)
        if 0 <= place < POINTS:
            _add(points[place], row["event"], row["details"])
    return [point.to_json(since + n * width) for n, point in enumerate(points)]


def span(hours: int, now: datetime) -> tuple[datetime, datetime]:
    """The last hours, up to the end of the present bucket, so that a bucket does not move with every look."""
    width = timedelta(hours=hours) / POINTS
    until = now - (now - datetime.min.replace(tzinfo=now.tzinfo)) % width + width
    return until - timedelta(hours=hours), until


def _add(point: _Point, event: str, details: JsonMapping) -> None:
    match event:
        case "planned":
            left = details.get("left")
            lag = sum(r["end_offset"] - r["start_offset"] for r in details["ranges"]) + (left or 0)
            if point.lag is None or lag > point.lag:
                point.lag, point.at_least = lag, left is None
        case "attempt_ended" if details["outcome"] == "applied":
            point.seconds.append(sum(details["phase_seconds"].values()))
        case "committed":
            point.batches += 1
            for name, count in (details["counts"] or {}).items():
                point.counts[name] = point.counts.get(name, 0) + count
