"""A topic of Kafka as a sink: its names, its columns, and what a record looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from include.delivery.sql_values import json_object, text_value
from include.pipeline_file import Pipeline, Security
from include.pipeline_file.schema_ddl import canonical
from include.pipeline_file.sink_columns import FLAG, PROGRESS_TOPIC, SinkColumn, sink_columns
from include.protocol.guarantees import Level


@dataclass(frozen=True)
class SinkTopic:
    """What a Kafka sink writes."""

    pipeline: str
    name: str  # the sink's
    bootstrap_servers: str
    security: Security | None
    topic: str
    columns: tuple[SinkColumn, ...]
    key_is_text: bool
    flags: bool  # a delete is a record with a flag
    guarantee: Level
    transaction_seconds: int

    @classmethod
    def of(cls, pipeline: Pipeline, name: str) -> Self:
        sink = pipeline.sinks[name]
        place, columns = sink.topic, sink_columns(pipeline, sink)
        own = place.bootstrap_servers is not None
        keys = [column for column in columns if column.is_key]
        by_itself = len(keys) == 1 and canonical(keys[0].type) == "STRING"
        return cls(
            pipeline=pipeline.name,
            name=name,
            bootstrap_servers=place.bootstrap_servers or pipeline.source.bootstrap_servers,
            security=place.security if own else pipeline.source.security,
            topic=place.topic,
            columns=columns,
            key_is_text=by_itself if place.key is None else place.key == "string",
            flags=sink.flags_deletes,
            guarantee=sink.guarantee,
            transaction_seconds=place.transaction_seconds,
        )

    @property
    def where(self) -> str:
        """For errors."""
        return f"{self.pipeline}, sink {self.name} (kafka {self.topic})"

    @property
    def transactional_id(self) -> str:
        """The same for every delivery, whatever its generation: so each fences all before it."""
        return f"lakemark.{self.pipeline}.{self.name}.{self.topic}"

    @property
    def progress_topic(self) -> str:
        """Where the sink's progress is kept, in one partition."""
        return PROGRESS_TOPIC.format(self.topic)

    @property
    def key(self) -> str:
        """SQL for a record's key."""
        keys = [column for column in self.columns if column.is_key]
        return text_value(keys[0]) if self.key_is_text else json_object(keys)

    @property
    def value(self) -> str:
        """SQL for the value of a row that was written."""
        return json_object(self.columns, {FLAG: "false"} if self.flags else {})

    @property
    def value_of_removed(self) -> str:
        """SQL for the value of a row that was removed."""
        keys = [column for column in self.columns if column.is_key]
        return json_object(keys, {FLAG: "true"}) if self.flags else "NULL"
