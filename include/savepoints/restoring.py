"""Goes back to a savepoint: tables and offsets together, as one change of generation. Needs no Spark."""

from __future__ import annotations

from include.checkpoints.restoring import Restoring
from include.checkpoints.shelf import taken
from include.control.coordinator import Coordinator
from include.pipeline_file import Pipeline
from include.settings import Settings


def restoring(
    settings: Settings,
    pipeline: Pipeline,
    name: str,
    reason: str,
    started_by: str,
    rules: str | None = None,
    deliver: str | None = None,
) -> Restoring:
    """What goes back to a savepoint. The fences take its logs where a table's own log no longer reaches back, and its
    copies where files are gone.

    Args:
        reason: a person's. started_by: who it is. rules, deliver: see `GenerationStarted`.

    Raises:
        TerminalError: see `taken`.
    """
    begun = taken(settings, pipeline, name).begun
    coordinator = Coordinator(settings, pipeline)
    to, origin = begun.checkpoint, begun.origin
    return Restoring(coordinator, to, reason, started_by, origin=origin, rules=rules, deliver=deliver)
