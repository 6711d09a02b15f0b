"""A participant that exists only here: a table before the point, which is only added to.

It shows what a new participant costs: this file, and `add_to_catalog`, which stands for one line in the catalog. All
else (the attempt, fences, resets, rebuilds, audit, maintenance, this matrix) finds it there. A pipeline has it if its
name begins with `noted`.
"""

from __future__ import annotations

from collections.abc import Iterator

from include.participants import catalog
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import AppendSpec

_PLACE = ("topic", "partition", "offset")
_COLUMNS = tuple(
    Column(name, type_)
    for name, type_ in zip(
        (*_PLACE, "generation", "batch_id"), ("STRING", "INT", "BIGINT", "INT", "BIGINT"), strict=True
    )
)


def add_to_catalog() -> None:
    if notes not in catalog.KINDS:
        catalog.KINDS.insert(0, notes)


def notes(pipeline: Pipeline) -> Iterator[Participant]:
    """Where each record came from."""
    if not pipeline.name.startswith("noted") or pipeline.is_landing:
        return
    table = f"lake://silver/{pipeline.name}_notes"
    yield Participant(
        name="notes",
        role="note",
        place="before",
        takes="records",
        path=table.removeprefix("lake://"),
        make_spec=lambda: AppendSpec(pipeline.name, table, _COLUMNS, _PLACE),
        phase="notes",
        in_words=f"the notes {table}",
        because="one append per batch, carrying its marker",
        by_chunks=False,
    )
