"""What a pipeline's tables can go back to, for the page: its savepoints, and its newest checkpoints."""

from __future__ import annotations

from include.checkpoints.listing import checkpoints_in, listed
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.savepoints.checking import seen
from include.savepoints.rehearsals import rehearsed
from include.settings import Settings


def kept_states(settings: Settings, pipeline: Pipeline, limit: int) -> JsonObject:
    """Savepoints and checkpoints, newest first, each with what makes it worth nothing (`lost`).

    Args:
        limit: of checkpoints.

    Raises:
        TableDamaged: the newest version of a table cannot be read. OSError: the store does not answer.
    """
    known = checkpoints_in(settings, pipeline)
    return {
        "savepoints": [
            {
                "name": one.on_shelf.name,
                "at": begun and begun.created_at,
                "by": begun and begun.created_by,
                "reason": begun and begun.reason,
                "kind": begun and ("copy" if begun.is_copy else "pin"),
                "checkpoint": begun and begun.checkpoint.name,
                "bytes": one.on_shelf.savepoint and one.on_shelf.savepoint.bytes,
                "lost": one.lost,
                "is_ended": one.is_ended,
                "rehearsed": (last := rehearsed(settings, pipeline, one.on_shelf.name)) and last.to_json(),
            }
            for one in reversed(seen(settings, pipeline))
            for begun in (one.on_shelf.begun,)
        ],
        "checkpoints": [
            {
                "name": one.checkpoint.name,
                "at": one.checkpoint.committed_at,
                "read": one.checkpoint.counts and one.checkpoint.counts.read,
                "lost": one.lost,
                "until": one.until,
            }
            for one in reversed(listed(settings, pipeline, known[-limit:]))
        ],
    }
