"""What somebody wants backfilled, and whether that makes sense. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from include.protocol.backfill import Into
from include.protocol.errors import TerminalError
from include.protocol.ranges import OffsetRange

Source = Literal["kafka", "quarantine", "archive"]  # where a backfill reads records


@dataclass(frozen=True)
class BackfillRequest:
    """What somebody wants backfilled.

    A backfill into the target names `ranges`, a time span or batches. If it reads the archive, it may name none of
    them, which means everything. A new table always gets everything, so its backfill names none of them.
    """

    ranges: Sequence[OffsetRange] = ()
    since: datetime | None = None  # Kafka's timestamps, from here on (inclusive)
    until: datetime | None = None  # and to here (exclusive); None: to what Kafka holds now
    batches: tuple[int, int] | None = None  # ids in the current generation, both inclusive
    into: Into = "same"
    source: Source = "kafka"
    rule: str | None = None  # for the quarantine: only records that broke this rule
    records_per_chunk_max: int | None = None  # None: as many as in the pipeline's batches
    deliver: str | None = None  # what sinks get of it, as in `Backfill`

    def __post_init__(self) -> None:
        named = [bool(self.ranges), self.since is not None or self.until is not None, self.batches is not None]
        wanted = 1 if self.into == "same" else 0
        if self.source == "quarantine":
            if named[1] or named[2] or self.into == "new":
                raise _not_so("the replay", "offset ranges, a rule, or neither: the whole quarantine", "something else")
        elif self.rule is not None:
            raise _not_so("the backfill", "no rule: only quarantined records broke one", self.rule)
        elif sum(named) != wanted and not (self.source == "archive" and not any(named)):
            expected = "exactly one of offset ranges, a time span, batches"
            raise _not_so(
                "the backfill",
                expected if wanted else "no range: a table that takes the target's place must hold everything",
                f"{sum(named)} of them",
            )
        if self.since and self.until and self.since >= self.until:
            raise _not_so("the time span", "a start before its end", f"{self.since} to {self.until}")
        if self.records_per_chunk_max is not None and self.records_per_chunk_max < 1:
            raise _not_so("records per chunk", "at least 1", str(self.records_per_chunk_max))

    @property
    def is_everything(self) -> bool:
        """Whether it names no ranges, no times and no batches."""
        return not (self.ranges or self.since or self.until or self.batches)


def _not_so(where: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="this cannot be backfilled",
        where=where,
        expected=expected,
        found=found,
        action="ask for something else; nothing was changed",
    )
