"""How far a pipeline's sinks are behind the lake. It asks the ledger and the target's log, and no sink."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from include.control.deliveries import Deliverer
from include.control.sink_feed import SinkFeed
from include.pipeline_file import Pipeline
from include.protocol.errors import LakemarkError
from include.protocol.json_data import JsonObject
from include.protocol.sinks import SinkStanding
from include.settings import Settings


@dataclass(frozen=True)
class SinkLag:
    """What a sink still lacks."""

    batches: int  # commits of batches and chunks
    rows: int  # that these have changed in the target
    seconds: float  # since the oldest of them was committed

    @property
    def in_words(self) -> str:
        if not self.batches:
            return "nothing waits for it"
        return f"it lacks {self.batches:,} commits with {self.rows:,} rows, the oldest {self.seconds:,.0f} s old"


@dataclass(frozen=True)
class SinkFacts:
    """One sink, as people see it."""

    pipeline: str
    name: str
    system: str
    place: str
    mode: str
    guarantee: str
    standing: SinkStanding
    lag: SinkLag | None  # None: it cannot be told
    untold: str | None = None  # why

    def to_json(self) -> JsonObject:
        told = {"standing": self.standing.to_json(), "lag": self.lag and asdict(self.lag), "in_words": self.in_words}
        return {**asdict(self), **told}

    @property
    def in_words(self) -> str:
        """How it is, in one line."""
        if self.standing.paused is not None:
            return f"paused: {self.standing.paused}"
        if self.standing.problem is not None:
            return "its last delivery failed"
        return self.lag.in_words if self.lag is not None else "how far it is cannot be told"


def facts_of(settings: Settings, pipeline: Pipeline, name: str) -> SinkFacts:
    """What is known of a sink, and what it lacks."""
    sink, deliverer = pipeline.sinks[name], Deliverer(settings, pipeline, name)
    standing, lag, untold = deliverer.standing, None, None
    try:
        lag = lag_of(deliverer.feed, standing)
    except LakemarkError as error:
        untold = str(error)
    return SinkFacts(
        pipeline=pipeline.name,
        name=name,
        system=sink.system,
        place=sink.place.in_words,
        mode=sink.mode,
        guarantee=sink.level,
        standing=standing,
        lag=lag,
        untold=untold,
    )


def lag_of(feed: SinkFeed, standing: SinkStanding) -> SinkLag:
    """What a sink lacks that stands there. Raises TableDamaged: see `TableLog.open`."""
    target = feed.target()
    if target is None:
        return SinkLag(0, 0, 0.0)
    progress = standing.progress
    seen = progress.version if progress is not None and progress.table_id == target.table_id else -1
    waiting = [
        entry.landed
        for entry in target.log.newest_entries(feed.pipeline.name, target.log.version - seen)
        if entry.landed is not None and entry.version <= target.version
    ]
    if not waiting:
        return SinkLag(0, 0, 0.0)
    rows = sum(commit.merge.inserted + commit.merge.updated + commit.merge.deleted for commit in waiting)
    age = datetime.now(UTC) - datetime.fromisoformat(waiting[-1].committed_at)
    return SinkLag(len(waiting), rows, max(0.0, age.total_seconds()))
