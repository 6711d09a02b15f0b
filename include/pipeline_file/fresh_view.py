"""Says which pipelines have the view `fresh`: their table as it will be once all that has landed is merged."""

from __future__ import annotations

from include.pipeline_file.pipeline import Pipeline
from include.protocol.errors import TerminalError

FRESH = "fresh"  # the view's name


def verify_has_view(pipeline: Pipeline) -> None:
    """Checks that a pipeline has the view.

    Raises:
        TerminalError: it merges every batch at once, its target keeps history, its changes are not whole rows, or it
            applies truncates.
    """
    settings = {
        "merge_every": None if pipeline.merge_every else "null: the target is never behind",
        "change.history": pipeline.change.history if pipeline.change.history == "scd2" else None,
        "change.absent": "keep" if pipeline.partial_columns else None,
        "change.truncates": "apply" if pipeline.change.truncates == "apply" else None,
    }
    beyond = [f"{name}: {value}" for name, value in settings.items() if value]
    if beyond:
        raise TerminalError(
            what="this pipeline's table has no view `fresh`",
            where=pipeline.name,
            expected="merge_every, one row per key, and changes that are whole rows",
            found="; ".join(beyond),
            action="read the target itself",
        )
