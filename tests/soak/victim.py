"""A pipeline under fire, as the soak's faults see it."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from typing import Any

from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from tests.soak.load import Expected
from tests.support.world import LAKEMARK, World

RUN_SECONDS_MAX = 300
PARTITIONS = 3
NEW_KEYS = 2 * 10**9  # no other change is of these


@dataclass
class Victim:
    """One pipeline under fire."""

    world: World
    stack: Stack
    pipeline: Pipeline
    expected: Expected
    chance: random.Random
    forgets: bool = True  # Kafka may lose records of its topic

    @property
    def more(self) -> dict[str, Any]:
        """Fields that its changes have beside those of all pipelines."""
        return {"kind": "a", "old_id": None} if self.expected.moves else {}

    @property
    def topic(self) -> str:
        return self.pipeline.source.topics[0]

    @property
    def reader(self) -> str:
        """The name of the half that reads Kafka."""
        return self.pipeline.halves[0].name

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        return self.world.start(LAKEMARK, *command, **environment)

    def run(self, **environment: str) -> subprocess.Popen[str]:
        return self.start("run", self.pipeline.name, **environment)

    def command(self, *command: str, code: int | None = 0) -> str:
        process = self.start(*command)
        said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
        assert code is None or process.returncode == code, said
        return said

    def drain(self) -> None:
        """Runs without faults until caught up. What a fault left behind may cost an attempt or two."""
        for left in (2, 1, 0):
            process = self.start("run", self.pipeline.name, "--until-caught-up")
            said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
            if process.returncode == 0:
                return
            assert left, said
