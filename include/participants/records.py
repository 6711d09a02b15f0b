"""The tables of records: the archive, and the quarantine."""

from __future__ import annotations

from collections.abc import Iterator

from include.participants.participant import POINT, Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.schema_ddl import Column
from include.pipeline_file.table_spec import AppendSpec

ARCHIVE, QUARANTINE = "archive", "quarantine"  # the participants' names
_POSITION = ("topic", "partition", "offset")
HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_ARCHIVED = (
    Column("topic", "STRING"),
    Column("topic_id", "STRING"),
    Column("partition", "INT"),
    Column("offset", "BIGINT"),
    Column("timestamp", "TIMESTAMP"),
    Column("key", "BINARY"),
    Column("value", "BINARY"),
    Column("headers", HEADERS),
    Column("generation", "INT"),
    Column("batch_id", "BIGINT"),
)
_SET_ASIDE = (
    Column("topic", "STRING"),
    Column("partition", "INT"),
    Column("offset", "BIGINT"),
    Column("timestamp", "TIMESTAMP"),
    Column("key", "BINARY"),
    Column("value", "BINARY"),
    Column("reason", "STRING"),
    Column("generation", "INT"),
    Column("batch_id", "BIGINT"),
    Column("rules", "ARRAY<STRING>"),
)


def archive(pipeline: Pipeline) -> Iterator[Participant]:
    """The archive of a pipeline that reads Kafka itself. With `merge_every` its landing writes it, as its point."""
    table = pipeline.target.table if pipeline.is_landing else pipeline.archive
    if table is None or pipeline.merge_every is not None:
        return
    yield Participant(
        name=POINT if pipeline.is_landing else ARCHIVE,
        role=ARCHIVE,
        place="point" if pipeline.is_landing else "before",
        takes="records",
        path=table.removeprefix("lake://"),
        make_spec=lambda: AppendSpec(pipeline.name, table, _ARCHIVED, _POSITION, cluster_by=_POSITION),
        phase=ARCHIVE,
        in_words=f"the archive {table}",
        because="one append per batch, carrying marker and offsets",
        by_chunks=False,
    )


def quarantine(pipeline: Pipeline) -> Iterator[Participant]:
    """The records that cannot be applied. A landing applies none."""
    if not pipeline.is_landing:
        yield Participant(
            name=QUARANTINE,
            role=QUARANTINE,
            place="before",
            takes="set aside",
            path=f"_lakemark/quarantine/{pipeline.name}",
            make_spec=lambda: AppendSpec(pipeline.name, QUARANTINE, _SET_ASIDE, _POSITION, grows=True),
            phase=QUARANTINE,
            in_words=QUARANTINE,
            because="one append per batch, carrying the batch's marker",
        )
