"""What a pipeline file declares: all sections, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.apart import Place, places_in
from include.pipeline_file.change import KAFKA_TIMESTAMP, Change, OrderField
from include.pipeline_file.condition import columns_in
from include.pipeline_file.debezium import INSTANTS, POSITIONS, may_be_unavailable
from include.pipeline_file.quality import Quality
from include.pipeline_file.schedule import ALLOWED, Schedule, in_words
from include.pipeline_file.schema_ddl import Column, type_at
from include.pipeline_file.section import HOURS_MAX, LINEAGE, NAME, RESCUED, TABLE, VALID_FROM, Section, refuse_climbing
from include.pipeline_file.sinks import SINKS_MAX, Sinks
from include.pipeline_file.source import Source
from include.pipeline_file.target import Checkpoints, Target, Upkeep
from include.pipeline_file.transform import Transform

KAFKA_POSITION = {"kafka_topic": "topic", "kafka_partition": "partition", "kafka_offset": "offset"}


class Declaration(Section):
    name: str = Field(pattern=NAME, description="The same as the file's name without .yaml.")
    description: str = Field(default="", max_length=10_000, description="For people; shown in Airflow.")
    schedule: Schedule = Field(default=None, description=ALLOWED)
    group: str | None = Field(
        default=None,
        pattern=NAME,
        description="Pipelines of one group run together: one run of the group's DAG serves all that have new data.",
    )
    tasks: Literal["one", "three"] = Field(
        default="three",
        description="How a run shows in Airflow: as the tasks plan, merge and settle, or as one task that does all "
        "three, which costs less.",
    )
    stale_after_minutes: float | None = Field(
        default=None,
        gt=0,
        le=HOURS_MAX,
        description="When a record waits longer than this, the table is stale and an alert is sent.",
    )
    source: Source
    transform: Transform | None = Field(
        default=None, description="How decoded records are transformed; null: no transform."
    )
    change: Change
    target: Target
    archive: str | None = Field(
        default=None,
        pattern=TABLE,
        description="lake://layer/table, which gets every record as Kafka has it, before everything else.",
    )
    merge_every: int | None = Field(
        default=None,
        ge=2,
        le=1000,
        description="Batches land in the archive, each at once, and one MERGE merges this many of them; fewer when "
        "Kafka has nothing new. Null: every batch has its own MERGE.",
    )
    quality: Quality = Quality()
    maintenance: Upkeep = Upkeep()
    checkpoints: Checkpoints = Checkpoints()
    sinks: Sinks = Field(
        default={}, max_length=SINKS_MAX, description="{NAME: a system outside the lake that gets what lands}."
    )

    _inside = field_validator("archive")(refuse_climbing)

    @model_validator(mode="before")
    @classmethod
    def _generated_keys(cls, data: Any) -> Any:
        """Replaces `keys: generated`. It stands for columns with Kafka's position, which are the keys."""
        change, source = (data.get(name) if isinstance(data, Mapping) else None for name in ("change", "source"))
        if not isinstance(change, Mapping) or not isinstance(source, Mapping) or change.get("keys") != "generated":
            return data
        metadata = source.get("metadata") or {}
        if isinstance(metadata, Mapping):  # else its own check says what is wrong with it
            metadata = {**metadata, **KAFKA_POSITION}
        change = {**change, "keys": list(KAFKA_POSITION)}
        return {**data, "source": {**source, "metadata": metadata}, "change": change}

    @field_validator("name")
    @classmethod
    def _leaves_dag_names_alone(cls, name: str) -> str:
        if "__" in name:
            raise PydanticCustomError(
                "name", "a name without two underscores in a row: `__` separates the parts of a DAG's name"
            )
        return name

    @property
    def starts_in_words(self) -> str:
        """When it runs, as part of a sentence."""
        return in_words(self.schedule) + ("" if self.group is None else f", in a run of the group `{self.group}`")

    @property
    def places(self) -> Iterator[Place]:
        """All tables that the file names, without those that it only waits for."""
        return places_in(self.model_dump(include={"target", "archive", "transform"}))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The target's columns: those of the source, or those that the transform returns."""
        if self.transform is not None:
            return self.transform.columns
        return (*self.source.columns, *([Column(RESCUED, "STRING")] if self.rescues else []))

    @property
    def rescues(self) -> bool:
        """Whether values that fit no declared column are kept."""
        return self.change.on_schema_change == "rescue"

    @property
    def keeps_history(self) -> bool:
        return self.change.history == "scd2" or self.target.history_table is not None

    @property
    def tombstones(self) -> Literal["quarantine", "ignore", "delete"]:
        """What happens to records without a value."""
        return self.change.tombstones or ("ignore" if self.source.is_debezium else "quarantine")

    @property
    def has_deletes(self) -> bool:
        """Whether rows may be hidden: readers then leave out `_lakemark.deleted`."""
        return bool(self.change.delete_when) or self.source.is_debezium or self.tombstones == "delete"

    @property
    def deciding_columns(self) -> frozenset[str]:
        """The columns that a record must not lose, even where others are rescued. They decide which row it belongs to,
        which change wins, and what happens to it."""
        spoken_of = set[str]()
        for condition in (self.source.filter, self.change.delete_when, *(route.when for route in self.target.routes)):
            spoken_of |= columns_in(condition or "")
        placing = self.change.placing_columns
        return frozenset(c.name for c in self.columns if c.name in placing or c.name.lower() in spoken_of)

    @property
    def beyond_deletes(self) -> tuple[str, ...]:
        """The columns that are null in a delete that holds only its key. Beside the key it may hold what orders it, and
        the columns in `delete_when`."""
        change = self.change
        kafkas = self.source.metadata if self.transform is None else ()
        spoken_of = columns_in(change.delete_when or "")
        names = (column.name for column in self.columns)
        return tuple(
            n for n in names if n not in {*change.placing_columns, *kafkas, RESCUED} and n.lower() not in spoken_of
        )

    @property
    def seen_by_readers(self) -> str:
        """SQL condition for the rows of the target that readers should see."""
        if self.change.history == "scd2":
            return f"{VALID_FROM} IS NOT NULL"
        return f"NOT coalesce({LINEAGE}.deleted, false)"

    @property
    def order(self) -> tuple[OrderField, ...]:
        """The fields that order changes, before topic, partition and offset decide."""
        return tuple(field for name in self.change.order_by if (field := self.order_field(name)))

    @property
    def placing_values(self) -> tuple[str, ...]:
        """The columns that order changes, or say from when they are valid. A delete keeps their values."""
        found = {name: self.order_field(name) for name in self.change.placed_by}
        return tuple(name for name, field in found.items() if field is not None and field.of == "column")

    @property
    def positions(self) -> tuple[str, ...]:
        """The positions of Debezium that the file names."""
        named = dict.fromkeys(self.change.placed_by)
        return tuple(name for name in named if (field := self.order_field(name)) and field.of == "position")

    @property
    def moves_keys(self) -> bool:
        """Whether a change may change the key of a row."""
        return bool(self.change.previous_keys) or (self.source.is_debezium and self.transform is None)

    @property
    def valid_from(self) -> OrderField:
        """The field with the start of a state. Only for a pipeline that keeps history."""
        found = self.order_field(self.change.valid_from or self.change.order_by[0])
        assert found is not None, "it has been checked"
        return found._replace(type="TIMESTAMP") if found.of == "position" and found.name in INSTANTS else found

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns of `source.value_columns`. Values of new and old keys must fit their types exactly."""
        keys = self.change.all_keys
        return tuple(column._replace(exact=column.name in keys) for column in self.source.value_columns)

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """The columns that a change may leave out, and that then keep their values."""
        is_kept = self.source.is_debezium and self.transform is None
        if (self.change.absent or ("keep" if is_kept else "nulls")) == "nulls":
            return ()
        always = {*self.change.keys, *(name.split(".")[0] for name in self.change.placed_by)}
        return tuple(
            column.name
            for column in self.source.value_columns
            if column.name not in always and (not self.source.is_debezium or may_be_unavailable(column))
        )

    @property
    def schema_field(self) -> str:
        """The field of the file that declares the target's columns."""
        return "source.schema" if self.transform is None else "transform.schema"

    def order_field(self, name: str) -> OrderField | None:
        """The part of the change order with that name; None if there is no such column or position."""
        if (type_ := type_at(self.columns, name)) is not None:
            return OrderField(name, type_, "column" if name in (c.name for c in self.columns) else "field")
        if name == KAFKA_TIMESTAMP:
            return OrderField(name, "TIMESTAMP", "kafka")
        if self.source.is_debezium and name in POSITIONS:
            return OrderField(name, POSITIONS[name], "position")
        return None
