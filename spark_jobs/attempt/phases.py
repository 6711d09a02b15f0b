"""How long each phase of an attempt took, and which one is running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from include.profile.tags import phase_tag
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.session import tagged


@dataclass
class Phases:
    """The phases of one attempt. Spark's jobs are tagged with the one that is running."""

    say: SayFact
    seconds: dict[str, float] = field(default_factory=dict)
    engines: dict[str, str] = field(default_factory=dict)  # by table: what has written it, and why
    current: str = "start"
    may_have_landed: bool = False  # true from the phase on that makes the batch's own commit
    spark: SparkSession | None = None  # once it is open

    @contextmanager
    def phase(self, name: str, commits: bool = False) -> Iterator[None]:
        """Measures a phase.

        Args:
            commits: the batch's commit point is in this phase.
        """
        self.current = name
        self.may_have_landed |= commits
        self.say({"progress": name})
        began = time.monotonic()
        with tagged(self.spark, phase_tag(name)):
            yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 3)
