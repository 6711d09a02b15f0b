"""The event of a settled batch: the `extra` of an asset event in Airflow, and how to read exactly its version.

for event in context["triggering_asset_events"][Asset("lake://silver/orders")]:
    batch = BatchEvent.from_json(event.extra)
    rows = batch.query("select count(*) as orders from t")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from include.checkpoints.reading import Cut, name_in_queries
from include.lake.delta_tables import OpenedTable, Row, open_table, query
from include.lake.uri import LakeUri
from include.participants.participant import POINT
from include.pipeline_file import LINEAGE, Pipeline, find_pipeline
from include.pipeline_file.tables import table_uri
from include.protocol.errors import TargetBehindLedger, TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ledger_events import BatchCommitted
from include.protocol.ledger_records import BatchRecord
from include.settings import Settings

EVENT_FORMAT = 1


@dataclass(frozen=True)
class BatchEvent:
    """One settled batch of a table. Events come at least once: a cleared task sends the events of its batches again."""

    pipeline: str
    table: str  # lake://layer/table
    generation: int
    batch_id: int
    ranges: tuple[str, ...]  # TOPIC-PARTITION:START-END, END exclusive
    table_version: int | None  # None if Delta's log clean-up had removed the commit before it was settled
    table_id: str | None
    committed_at: str | None  # ISO 8601, UTC
    counts: Mapping[str, int] | None  # read, applied, superseded, stale, quarantined, filtered
    quarantine_version: int | None
    quality: str | None = None  # passed, warned or quarantined; None: the pipeline has no suite
    # Of every table that batches write, by the name that queries have for it; empty: an older Lakemark sent the event.
    versions: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, record: BatchRecord) -> Self:
        """The event of a batch, which must be settled."""
        batch, commit = record.batch, record.commit
        assert commit is not None
        return cls(
            pipeline=pipeline.name,
            table=pipeline.target.table,
            generation=batch.generation,
            batch_id=batch.batch_id,
            ranges=tuple(r.as_argument() for r in batch.ranges),
            table_version=commit.table_version,
            table_id=commit.table_id,
            committed_at=commit.committed_at,
            counts=commit.counts.to_json() if commit.counts else None,
            quarantine_version=commit.quarantine_version,
            quality=commit.quality["outcome"] if commit.quality else None,
            versions=_versions(commit),
        )

    def to_json(self) -> JsonObject:
        return {"lakemark": EVENT_FORMAT, **asdict(self), "ranges": list(self.ranges)}

    @classmethod
    def from_json(cls, data: JsonMapping) -> Self:
        """Reads an event. Raises TerminalError if it is not from a settled batch."""
        if data.get("lakemark") != EVENT_FORMAT:
            raise TerminalError(
                what="this is not the event of a settled batch",
                where="an asset event's extra",
                expected=f"the key lakemark with the value {EVENT_FORMAT}",
                found=", ".join(sorted(data)) or "nothing",
                action="something else updated the asset (Airflow's UI can do that): ignore this event",
            )
        return cls(**{**{k: v for k, v in data.items() if k != "lakemark"}, "ranges": tuple(data["ranges"])})

    @property
    def key(self) -> tuple[str, int, int]:
        """Identifies the batch among all batches."""
        return self.pipeline, self.generation, self.batch_id

    def open(self, settings: Settings | None = None) -> OpenedTable:
        """Opens the table at exactly this version, whatever has landed since.

        Raises:
            TargetBehindLedger: another table lies there now. TerminalError: the version is no longer there.
        """
        uri = table_uri(settings or Settings.from_environment(), self.table)
        if self.table_version is None:
            raise self._gone(uri, "an event without a version: Delta's log clean-up had removed the commit")
        try:
            table = open_table(uri, self.table_version)
        except TerminalError as error:
            raise self._gone(uri, error.found) from error
        if table is None:
            raise self._gone(uri, "no table")
        found = str(table.metadata().id)
        if self.table_id not in (None, found):
            raise TargetBehindLedger(
                what="another table lies where the batch landed",
                where=f"{self.table} version {self.table_version}",
                expected=f"table id {self.table_id}",
                found=f"table id {found}",
                action=f"see `lakemark audit {self.pipeline}`",
            )
        return table

    def tables(self, settings: Settings | None = None) -> dict[str, OpenedTable]:
        """Opens all tables of the pipeline as this batch has left them, by the names that queries have for them.

        Raises:
            TerminalError: the batch is no checkpoint any more, see `Cut.at` and `Cut.tables`.
        """
        now = settings or Settings.from_environment()
        pipeline = find_pipeline(self.pipeline, now.pipelines, now.environment)
        return Cut.at(now, pipeline, f"batch:{self.generation}/{self.batch_id}").tables()

    def query(self, sql: str, settings: Settings | None = None) -> list[Row]:
        """The rows of a query (DataFusion's SQL) over exactly this version, which it calls `t`. Raises as `open`."""
        return query(self.open(settings), sql)

    @property
    def changed(self) -> str:
        """SQL condition for the rows that this batch changed last, including tombstones (`_lakemark.deleted`)."""
        return f"{LINEAGE}['generation'] = {self.generation} and {LINEAGE}['batch_id'] = {self.batch_id}"

    def _gone(self, uri: LakeUri, found: str) -> TerminalError:
        return TerminalError(
            what="this version of the table can no longer be read",
            where=f"{self.table} version {self.table_version} at {uri}",
            expected="its files: by default, VACUUM and log clean-up keep them for a week",
            found=found,
            action="read the newest version instead: it has the batch's rows, unless newer changes have replaced them",
        )


def _versions(commit: BatchCommitted) -> dict[str, int]:
    stood = {name: position.version for name, position in (commit.positions or {}).items()}
    stood[POINT] = commit.table_version
    return {name_in_queries(name): version for name, version in stood.items() if version is not None}
