"""The ways to write a part of a batch into a table, and which one stands in where another fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Literal, TypeVar

from pyspark.sql import SparkSession

from include.lake.merge.landing import MarkerIsThereError, OvertakenError
from include.lake.merge.unfit import UnfitError
from include.lake.uri import LakeUri
from include.participants.engines import Choice
from include.protocol.batch import Batch
from spark_jobs.attempt.part import Part
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.failures import is_conflict, is_same_marker, is_short_of_memory, is_too_large
from spark_jobs.tables.contract import Spec, Write
from spark_jobs.tables.lane import lane_write
from spark_jobs.tables.writers import writer_of

T = TypeVar("T")
Way = Literal["lane", "hinted", "plain"]  # without Spark; by Spark, with or without a hint for the join
_TRIES_MAX = 5  # in one attempt, while other work on the table is faster
_CONFLICTS_MAX = 2  # before it takes a turn


class WriteOvertakenError(Exception):
    """Another commit was faster than this one; nothing has landed."""


@dataclass(frozen=True)
class PartWrite:
    """A part of a batch that is added to a table as it is.

    Args:
        choice: the engine for it. prunes: see `contract.Writer`.
    """

    spark: SparkSession
    uri: LakeUri
    spec: Spec
    part: Part
    batch: Batch
    choice: Choice
    prunes: bool

    @property
    def ways(self) -> list[Way]:
        """The best way first. Each of the others stands in where the one before it fails."""
        ways: list[Way] = ["hinted", "plain"] if self.part.rows.has_hint else ["plain"]
        is_for_lane = self.choice.engine == "lane" and self.part.rows.arrow is not None and not self.part.truncated
        return ["lane", *ways] if is_for_lane else ways

    def in_words(self, way: Way, unfit: str | None) -> str:
        """What has written it, and why. Args: unfit: see `tried`."""
        if (way == "lane") == (self.choice.engine == "lane"):
            return self.choice.in_words
        if self.part.truncated:
            return "spark: a truncate"
        return "spark: too many bytes" if self.part.rows.arrow is None else f"spark: the lane has found {unfit}"

    def by(self, way: Way) -> Write:
        """The write, not yet done."""
        rows, table = self.part.rows, self.choice.table
        if way == "lane":
            assert table is not None, "the lane has looked at it"
            bytes_max = self.choice.bytes_max
            return lane_write(self.spark, table, rows, self.spec, batch=self.batch, bytes_max=bytes_max)
        frame = rows.hinted if way == "hinted" else rows.frame
        land = writer_of(self.spec).landing
        return land(self.spark, self.uri, frame, self.spec, batch=self.batch, prunes=self.prunes)


def tried(
    ways: Sequence[Way],
    land: Callable[[Way, str | None], T],
    landed: Callable[[], T | None],
    say: SayFact,
    turn: Callable[[], AbstractContextManager[None]],
) -> T:
    """Calls `land` until it succeeds: again after a conflict with other work; the next way where one does not do.

    Args:
        land: gets what the lane has found, if it has stood back. landed: asks the log what has landed after all; None:
            nothing. turn: keeps others away, if they are too fast.
    """
    with ExitStack() as stack:
        return _tried(ways, land, landed, say, turn=lambda: stack.enter_context(turn()))


def _tried(
    ways: Sequence[Way],
    land: Callable[[Way, str | None], T],
    landed: Callable[[], T | None],
    say: SayFact,
    turn: Callable[[], None],
) -> T:
    way, *others = ways
    unfit: str | None = None
    for tries_left in reversed(range(_TRIES_MAX)):
        try:
            return land(way, unfit)
        except Exception as error:
            if (found := landed()) is not None:
                return found
            if not tries_left:
                raise
            if _is_overtaken(error):
                say({"progress": "conflict"})
                if tries_left == _TRIES_MAX - _CONFLICTS_MAX:
                    turn()
            elif others and isinstance(error, UnfitError):
                unfit = str(error)
                say({"progress": "by Spark", "why": unfit})
                way, *others = others
            elif others and (is_short_of_memory(error) or is_too_large(error)):
                unfit = unfit or "too little memory"
                say({"progress": "memory"})
                way, *others = others
            else:
                raise
    raise AssertionError("the last try returns or raises")


def _is_overtaken(error: Exception) -> bool:
    """Whether other work was faster, and nothing has landed."""
    known = isinstance(error, OvertakenError | MarkerIsThereError | WriteOvertakenError)
    return known or is_conflict(error) or is_same_marker(error)
