"""The tags of an attempt's Spark jobs. With them Spark's event log shows which attempt, phase and step a job is for."""

from __future__ import annotations

import re

_ATTEMPT, _PHASE, _STEP = "lakemark-attempt-", "lakemark-phase-", "lakemark-step-"


def attempt_tag(attempt_id: str) -> str:
    return f"{_ATTEMPT}{attempt_id}"


def phase_tag(phase: str) -> str:
    return f"{_PHASE}{phase}"


def step_tag(step: str) -> str:
    """The tag of a step in a phase. Dashes join its words, because a tag has no spaces."""
    return f"{_STEP}{step.replace(' ', '-')}"


def phase_in(tags: str) -> str | None:
    """The phase that a job's tags name; None if they name none. (Spark Connect puts more text around each tag.)"""
    found = re.search(rf"{_PHASE}(\w+)", tags)
    return found[1] if found else None


def step_in(tags: str) -> str | None:
    """The step that a job's tags name; None if they name none."""
    found = re.search(rf"{_STEP}([\w-]+)", tags)
    return found[1].replace("-", " ") if found else None
