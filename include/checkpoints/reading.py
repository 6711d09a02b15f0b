"""Reads all tables of a pipeline together, as one batch has left them. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import pyarrow as pa

from include.checkpoints.listing import checkpoints_in, position_at, told_in
from include.checkpoints.shelf import taken
from include.checkpoints.standing_now import with_what_came_since
from include.lake.delta_tables import OpenedTable, open_table
from include.lake.several_tables import NamedTable, query_tables
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import POINT, Participant
from include.participants.records import ARCHIVE
from include.pipeline_file import LINEAGE, VALID_FROM, Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.checkpoints import Checkpoint, named, standing_at
from include.protocol.errors import TableDamaged, TerminalError
from include.protocol.ledger_events import GenerationStarted
from include.settings import Settings

_BATCH, _SAVEPOINT = "batch:", "savepoint:"


@dataclass(frozen=True)
class Cut:
    """A pipeline's tables at one checkpoint."""

    settings: Settings
    pipeline: Pipeline
    checkpoint: Checkpoint
    savepoint: str | None = None  # it has tables of its own, by which this is read

    @classmethod
    def at(cls, settings: Settings, pipeline: Pipeline, when: str | None) -> Cut:
        """The cut that a person names.

        Args:
            when: `batch:BATCH`, `batch:GENERATION/BATCH`, `savepoint:NAME`; or a time (ISO 8601, UTC unless it says
                otherwise), for the newest batch that was committed by then, or the one that the tables had gone back
                to; None: now, with what chunks of backfills have landed since.

        Raises:
            TerminalError: there is none.
        """
        if when is not None and when.startswith(_BATCH):
            known = checkpoints_in(settings, pipeline)
            return cls(settings, pipeline, named(pipeline.name, known, when.removeprefix(_BATCH)))
        if when is not None and when.startswith(_SAVEPOINT):
            name = when.removeprefix(_SAVEPOINT)
            return cls(settings, pipeline, taken(settings, pipeline, name).checkpoint, name)
        told = told_in(settings, pipeline)
        found = standing_at(pipeline.name, told, None if when is None else _moment(when).isoformat())
        if found is None:
            known = checkpoints_in(settings, pipeline)
            is_replaced = bool(known) and (when is None or (known[0].committed_at or "") <= _moment(when).isoformat())
            raise TerminalError(
                what="nothing had landed by then"
                + (" since other rows took the place of the table's" if is_replaced else ""),
                where=pipeline.name,
                expected="a batch that was committed by then",
                found=f"the first one at {known[0].committed_at}" if known and not is_replaced else "none so far",
                action=f"run the pipeline (`lakemark run {pipeline.name}`), or name a later time "
                f"(`lakemark checkpoint list {pipeline.name}`)",
            )
        if when is None:
            begun = [event for _, event in told if isinstance(event, GenerationStarted)]
            found = with_what_came_since(settings, pipeline, found, begun)
        return cls(settings, pipeline, found)

    @property
    def versions(self) -> dict[str, int]:
        """The versions of all tables that were there, by the names that queries have for them."""
        found = {shown_as(one): position_at(self.checkpoint, one).version for one in self._participants}
        if (landing := self._landing) is not None:
            found[ARCHIVE] = landing.versions.get(POINT)
        return {name: version for name, version in found.items() if version is not None}

    def tables(self) -> dict[str, OpenedTable]:
        """All tables that were there, opened at that cut, by the same names.

        Raises:
            TerminalError: one is another table now, or its log no longer reaches back. TableDamaged: see `open_table`.
        """
        found = {shown_as(one): opened for one in self._participants if (opened := self._opened(one)) is not None}
        if (landing := self._landing) is not None:
            found[ARCHIVE] = landing.tables()[POINT]
        return found

    def named_tables(self, is_alone: bool) -> list[NamedTable]:
        """The tables for a query, as readers should see them: without the rows that a delete has hidden.

        Args:
            is_alone: the query is about this pipeline only: its tables need no schema.
        """
        schemas = (None, self.pipeline.name) if is_alone else (self.pipeline.name,)
        conditions = {shown_as(one): _seen_by_readers(one) for one in self._participants}
        return [
            NamedTable([(schema, name) for schema in schemas], table, conditions.get(name, "true"))
            for name, table in self.tables().items()
        ]

    def _opened(self, participant: Participant) -> OpenedTable | None:
        position, uri = position_at(self.checkpoint, participant), participant.uri(self.settings)
        if position.version is None:
            return None
        if self.savepoint is not None:
            return self._saved(participant)
        log = TableLog.open(uri)
        if log is None or position.identity not in (None, log.table_id):
            found = "no table" if log is None else f"table id {log.table_id}"
            raise _gone(self, uri, f"table id {position.identity}", found)
        try:
            table = open_table(uri, position.version)
        except TableDamaged as error:
            frozen = Tables.of(self.settings, self.pipeline).frozen(log.table_id, position.version)
            if (table := open_table(frozen)) is None:
                raise _gone(self, uri, f"version {position.version}", error.found) from error
        return table

    def _saved(self, participant: Participant) -> OpenedTable:
        assert self.savepoint is not None, "the caller has checked it"
        place = Tables.of(self.settings, self.pipeline).saved(self.savepoint, participant.name)
        if (table := open_table(place)) is None:
            raise _gone(self, place, "the savepoint's table", "none")
        return table

    @cached_property
    def _landing(self) -> Cut | None:
        """The cut of the half that takes records to the archive, when this one was made: it is further. None: the
        pipeline has no such half, or its ledger no longer knows."""
        landing, at = self.pipeline.landing, self.checkpoint.committed_at
        if landing is None or at is None or self.savepoint is not None:
            return None
        with suppress(TerminalError):
            return Cut.at(self.settings, landing, at)
        return None

    @property
    def _participants(self) -> Sequence[Participant]:
        return Catalog.of(self.pipeline).participants


def query_at(cuts: Sequence[Cut], sql: str) -> pa.Table:
    """The rows of a query over the tables of one pipeline, or of several: those are in a schema by the pipeline's name
    (`orders.target`). Raises TerminalError: see `Cut.tables` and `query_tables`."""
    return query_tables([table for cut in cuts for table in cut.named_tables(is_alone=len(cuts) == 1)], sql)


def shown_as(participant: Participant) -> str:
    """How a query calls a table."""
    return name_in_queries(participant.name)


def name_in_queries(participant: str) -> str:
    """How a query calls a table: by its participant's name; a route's table by the end of its own."""
    return participant.rpartition("/")[2]


def _seen_by_readers(participant: Participant) -> str:
    match participant.spec.kind:
        case "scd1":
            return f"NOT coalesce({LINEAGE}['deleted'], false)"
        case "scd2":
            return f"{VALID_FROM} IS NOT NULL"
    return "true"


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:  # the calendar ends in the year 9999
        raise TerminalError(
            what="this is no checkpoint, and no time",
            where=f"--at {text[:100]}",
            expected="batch:BATCH, batch:GENERATION/BATCH, savepoint:NAME, or a time like 2026-11-20T10:00Z",
            found=text[:100],
            action="see `lakemark checkpoint list NAME`",
        ) from error


def _gone(cut: Cut, uri: LakeUri, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="a table cannot be read as it was",
        where=f"{cut.pipeline.name}, {cut.checkpoint.in_words}, {uri}",
        expected=expected,
        found=found,
        action=f"choose another checkpoint: `lakemark checkpoint list {cut.pipeline.name}` says which are whole",
    )
