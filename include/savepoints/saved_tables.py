"""Opens the tables of a savepoint, with the folders that their data files are in."""

from __future__ import annotations

from dataclasses import dataclass

from include.checkpoints.shelf import taken
from include.lake.merge.frozen import thawed
from include.lake.merge.snapshot import Snapshot
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.settings import Settings


@dataclass(frozen=True)
class SavedRows:
    """One table of a savepoint."""

    name: str  # the participant's
    table: Snapshot  # its files are named relative to the root
    root: LakeUri


def saved_rows(settings: Settings, pipeline: Pipeline, name: str) -> dict[str, SavedRows]:
    """The tables that were there, by the participants' names. A pinned one is left out if the pipeline no longer has
    the table.

    Raises:
        TerminalError: see `taken`. NoLogError, UnfitError, TableDamaged: see `Snapshot.of`; `checked` finds that.
    """
    found, places = taken(settings, pipeline, name), Tables.of(settings, pipeline)
    now = {one.name: one.uri(settings) for one in Catalog.of(pipeline).participants}
    rows = {}
    for table, saved in found.tables.items():
        folder = places.saved(name, table)
        root = folder if found.begun.is_copy else now.get(table)
        if saved.folder is not None and root is not None:
            rows[table] = SavedRows(table, thawed(folder, root), root)
    return rows
