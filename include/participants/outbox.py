"""The table of accepted changes, for sinks that get the changes themselves (`what: changes`).

The target holds what its rows have become: of several changes to a row in one batch the last one. This table keeps all
of them, as they were accepted, before the point's commit says that the batch has landed.
"""

from __future__ import annotations

from collections.abc import Iterator

from include.lake.sql import sql_name
from include.participants.participant import Participant
from include.pipeline_file import LINEAGE, Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import AppendSpec

CHANGES = "changes"  # the participant's name


def outbox(pipeline: Pipeline) -> Iterator[Participant]:
    """The table, if a sink asks for it."""
    if not pipeline.is_landing and any(sink.what == "changes" for sink in pipeline.sinks.values()):
        yield Participant(
            name=CHANGES,
            role=CHANGES,
            place="before",
            takes="accepted",
            path=f"_lakemark/changes/{pipeline.name}",
            make_spec=lambda: _spec(pipeline),
            phase=CHANGES,
            in_words="the accepted changes, for sinks",
            because="one append per batch, carrying the batch's marker",
        )


def _spec(pipeline: Pipeline) -> AppendSpec:
    columns = (*pipeline.columns, Column(LINEAGE, lineage_type(pipeline)))
    return AppendSpec(pipeline.name, CHANGES, columns, (), grows=True, place=LINEAGE)


def lineage_type(pipeline: Pipeline) -> str:
    """Where a change comes from, and what of its order no column says, as Spark's DDL has it."""
    order = [f"`{field.name}`: {field.type}" for field in pipeline.order if field.of != "column"]
    change_order = [f"change_order: STRUCT<{', '.join(order)}>"] if order else []
    position = ["topic: STRING", "partition: INT", "offset: BIGINT"]
    rest = ["deleted: BOOLEAN", "generation: INT", "batch_id: BIGINT"]
    return f"STRUCT<{', '.join([*position, *change_order, *rest])}>"


def change_order(pipeline: Pipeline) -> list[str]:
    """The order of changes, as standard SQL over the table. Of the two of a moved row, the old key's is first."""
    named = [
        sql_name(field.name) if field.of == "column" else f"{LINEAGE}.change_order.{sql_name(field.name)}"
        for field in pipeline.order
    ]
    place = [f"{LINEAGE}.{name}" for name in ("topic", "partition", "offset")]
    return [*(f"{name} NULLS FIRST" for name in named), *place, f"{LINEAGE}.deleted DESC"]
