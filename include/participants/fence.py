"""Fences the tables of a pipeline: ended generations get a marker that no batch can exceed (I5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from include.lake.delta_tables import OpenedTable, commit_markers
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.batch import FENCE, FORM, app_id, ended_id
from include.protocol.generations import fence_metadata
from include.protocol.ledger_events import FIRST_GENERATION, GenerationStarted
from include.protocol.participants import Stamp
from include.settings import Settings

Commit = Callable[[OpenedTable, Mapping[str, int], str], bool]


@dataclass(frozen=True)
class Fence:
    """The end of all generations before one.

    Args:
        commit_to_target: commits markers and metadata to the target, as the next version after the one that was opened;
            returns False if another writer was faster. A promotion adds the new table's rows in that same commit.
    """

    settings: Settings
    pipeline: Pipeline
    started: GenerationStarted  # the one that begins; its decision is the metadata of every fence
    commit_to_target: Commit = commit_markers

    def raise_in_all(self, target: TableLog, form: int) -> bool:
        """Fences all tables; False if a batch of the ended generation landed in the target after it was opened.

        Args:
            form: of the batches of the generation that ends.
        """
        if not self._raised(target, self.commit_to_target):
            return False
        # An ended generation may not add anything to other tables either. What its attempts have left there, and no
        # batch has landed, the next generation's first batch takes away.
        self.raise_before(form)
        return True

    def raise_before(self, form: int) -> None:
        """Fences the tables before the point."""
        for participant in Catalog.of(self.pipeline).before:
            self._raise(participant.uri(self.settings), form)

    def raise_in(self, table: LakeUri, is_point: bool) -> None:
        """Fences a table that has no fence although the generation has begun: it was made since, or the pipeline file
        named it not when the fence was raised."""
        self._raise(table, None if is_point else FORM)

    def _raise(self, table: LakeUri, form: int | None) -> None:
        """Tries until no other writer is faster. Args: as `_raised`."""
        while (log := TableLog.open(table)) and not self._raised(log, commit_markers, form):
            pass

    def _raised(self, log: TableLog, commit: Commit, form: int | None = None) -> bool:
        """Fences every ended generation that has no fence here: a new table in the old one's place has none.

        Args:
            form: of the ended generation's batches; the fence then also keeps where the table stood. None: the target.
        """
        name = self.pipeline.name
        ended = [g for g in range(FIRST_GENERATION, self.started.generation) if log.marker(name, g) != FENCE]
        markers = {app_id(name, generation): FENCE for generation in ended}
        if form is not None:
            for generation in ended:
                if (number := log.marker(name, generation)) is not None:
                    markers[ended_id(name, generation)] = Stamp.of(number, form).number
        return not markers or commit(log.table, markers, fence_metadata(name, self.started))
