"""What the ledger knows of a pipeline's sinks: what each has got, and what people have decided about it. Pure.

The sink itself says where it stands (see `progress`). The ledger's word is for people, who shall see it although the
sink does not answer, and for maintenance, which must not wait for an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self

from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.progress import Progress


@dataclass(frozen=True)
class SinkStanding:
    """One sink, as far as the ledger knows."""

    progress: Progress | None = None  # what it has got; None: nothing yet
    delivered_at: str | None = None  # ISO 8601, UTC: when that was
    paused: str | None = None  # why nothing is delivered to it; None: it is not paused
    problem: str | None = None  # why the last delivery failed; None: it did not
    prepares: bool = False  # it moved together with the lake, so it may keep a prepared transaction

    def to_json(self) -> JsonObject:
        return {**asdict(self), "progress": self.progress and self.progress.to_json()}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        progress = data.get("progress")
        return cls(**{**data, "progress": progress and Progress.from_json(progress)})


Sinks = Mapping[str, SinkStanding]  # by the sink's name


def sinks_to_json(sinks: Sinks) -> JsonObject:
    return {name: standing.to_json() for name, standing in sorted(sinks.items())}


def sinks_from_json(data: JsonMapping) -> dict[str, SinkStanding]:
    return {name: SinkStanding.from_json(standing) for name, standing in data.items()}


@dataclass(frozen=True)
class SinkTold:
    """What a delivery has brought to a sink, or what a person has decided about it. It moves nothing in the lake, so it
    may follow any event."""

    generation: int
    sink: str
    standing: SinkStanding
    told_by: str
    reason: str | None = None  # as a person gave it
    rows: int = 0  # that the delivery has changed there


def with_told(sinks: Sinks, event: SinkTold) -> dict[str, SinkStanding]:
    """The standing of all sinks after an event."""
    return {**sinks, event.sink: event.standing}


def delivered(before: SinkStanding, progress: Progress | None, at: str) -> SinkStanding:
    """Args: progress: where the sink stands now. at: ISO 8601, UTC."""
    return replace(before, progress=progress, delivered_at=at, problem=None)
