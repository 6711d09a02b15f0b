"""Delivers what has landed at the commit point to the systems that follow it. Needs no Spark."""

from __future__ import annotations

import logging

from include.lake.table_log import TableLog
from include.participants.catalog import Catalog
from include.participants.follower import Follower
from include.pipeline_file import Pipeline
from include.protocol.deliveries import after_delivery, due, seen_by
from include.protocol.errors import LakemarkError
from include.protocol.participants import Position
from include.protocol.settlement import LandedCommit
from include.settings import Settings

log = logging.getLogger(__name__)


def deliver(settings: Settings, pipeline: Pipeline) -> None:
    """Delivers all that is due. A system that does not answer holds nothing up: this warns, the next call delivers, and
    until then `lakemark audit` tells."""
    for follower in Catalog.of(pipeline).after:
        try:
            found = follower.position()  # before the log, which only grows
            for commit in undelivered(settings, pipeline, follower, found):
                follower.deliver(commit, after=found)
                found = after_delivery(commit)
        except LakemarkError as error:
            log.warning("%s: nothing was delivered to %s: %s", pipeline.name, follower.name, error)


def undelivered(settings: Settings, pipeline: Pipeline, follower: Follower, found: Position) -> list[LandedCommit]:
    """The commits that a system still has to get, oldest first.

    Args:
        found: where it stands.

    Raises:
        TerminalError: it has got what never landed. TableDamaged: see there.
    """
    target = TableLog.open(Catalog.of(pipeline).point.uri(settings))
    if target is None:
        return []
    commits = target.landed_commits(pipeline.name)
    reaches_back = target.reaches_back_to(seen_by(found, target.table_id))
    return due(found, target.table_id, commits, reaches_back=reaches_back, where=f"{pipeline.name}, {follower.name}")
