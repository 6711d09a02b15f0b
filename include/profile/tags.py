"""What an attempt's Spark jobs are tagged with, so that Spark's event log tells whose they are, and what for."""

from __future__ import annotations

import re

_ATTEMPT, _PHASE, _STEP = "lakemark-attempt-", "lakemark-phase-", "lakemark-step-"


def attempt_tag(attempt_id: str) -> str:
    return f"{_ATTEMPT}{attempt_id}"


def phase_tag(phase: str) -> str:
    return f"{_PHASE}{phase}"


def step_tag(step: str) -> str:
    """A step in a phase. Words are joined by dashes, for a tag has no spaces."""
    return f"{_STEP}{step.replace(' ', '-')}"


def phase_in(tags: str) -> str | None:
    """The phase that a job's tags name (Spark Connect puts more around each of them); None if they name none."""
    found = re.search(rf"{_PHASE}(\w+)", tags)
    return found[1] if found else None


def step_in(tags: str) -> str | None:
    """The same of the step."""
    found = re.search(rf"{_STEP}([\w-]+)", tags)
    return found[1].replace("-", " ") if found else None
