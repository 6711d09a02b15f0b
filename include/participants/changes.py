"""The tables of changes: the history beside the target, the routes' tables, and the target."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from include.participants.participant import POINT, Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec

_ONE_COMMIT = "one commit per batch, carrying its marker"


def history(pipeline: Pipeline) -> Iterator[Participant]:
    """The table of history beside a target that holds one row per key."""
    if (table := pipeline.target.history_table) is not None:
        yield Participant(
            name="history",
            role="history",
            place="before",
            takes="all changes",
            path=table.removeprefix("lake://"),
            make_spec=lambda: TableSpec.of_history(pipeline),
            phase="history",
            in_words=f"the history {table}",
            because=_ONE_COMMIT,
        )


def routes(pipeline: Pipeline) -> Iterator[Participant]:
    """The tables that some of the changes go to."""
    for place, route in enumerate(pipeline.target.routes):
        yield Participant(
            name=route.table,
            role="route",
            place="before",
            takes="changes",
            path=route.table.removeprefix("lake://"),
            make_spec=partial(TableSpec.of_route, pipeline, route.table),
            phase="routes",
            in_words=f"{route.table} ({route.when or ', '.join(route.topics)})",
            because=_ONE_COMMIT,
            route=place,
        )


def target(pipeline: Pipeline) -> Iterator[Participant]:
    """The target: its commit decides that the batch has landed. The target of a landing is the archive."""
    if not pipeline.is_landing:
        yield Participant(
            name=POINT,
            role="target",
            place="point",
            takes="changes",
            path=pipeline.target.table.removeprefix("lake://"),
            make_spec=lambda: TableSpec.of_target(pipeline),
            phase="merge",
            in_words=f"target {pipeline.target.table}",
            because="MERGE by key, newer changes only, with marker and offsets in the same Delta commit",
        )
