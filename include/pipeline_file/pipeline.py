"""The pipeline: all sections, and what has to fit together between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.apart import Place, clash_within, places_in
from include.pipeline_file.change import KAFKA_TIMESTAMP, Change, OrderField
from include.pipeline_file.condition import columns_in
from include.pipeline_file.debezium import INSTANTS, POSITIONS, may_be_unavailable
from include.pipeline_file.quality import Quality
from include.pipeline_file.schedule import ALLOWED, TABLE, Schedule
from include.pipeline_file.schema_ddl import FLOATS, Column, canonical, names_within, nested, type_at
from include.pipeline_file.section import (
    IS_CURRENT,
    LANDING,
    LINEAGE,
    NAME,
    RESCUED,
    VALID_FROM,
    VALID_TO,
    Section,
    refuse_climbing,
    refuse_doubles,
    refused,
)
from include.pipeline_file.source import Source
from include.pipeline_file.target import Target, Upkeep
from include.pipeline_file.transform import Transform
from include.pipeline_file.variables import as_shown
from include.protocol.json_data import JsonMapping

# Which Parquet's files do not take in names of columns, and so Delta does not (without mapped columns).
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_TIES = ("_topic", "_partition", "_offset")  # in `_lakemark.change_order`, behind what the file orders by
_POSITION = {"kafka_topic": "topic", "kafka_partition": "partition", "kafka_offset": "offset"}


class Pipeline(Section):
    name: str = Field(pattern=NAME, description="The same as the file's name without .yaml.")
    description: str = Field(default="", description="For people; shown in Airflow.")
    schedule: Schedule = Field(default=None, description=ALLOWED)
    stale_after_minutes: float | None = Field(
        default=None,
        gt=0,
        description="The table is stale, and an alert is sent, when a record waits longer than this.",
    )
    source: Source
    transform: Transform | None = Field(default=None, description="What is made of decoded records; null: nothing.")
    change: Change
    target: Target
    archive: str | None = Field(
        default=None,
        pattern=TABLE,
        description="lake://layer/table, which gets every record as Kafka has it, before all else.",
    )
    merge_every: int | None = Field(
        default=None,
        ge=2,
        le=1000,
        description="Batches land in the archive, each at once, and so many of them are merged by one MERGE; fewer "
        "when Kafka has nothing new. Null: every batch is merged by itself.",
    )
    quality: Quality = Quality()
    maintenance: Upkeep = Upkeep()

    _inside = field_validator("archive")(refuse_climbing)
    _as_shown: Pipeline | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _generated_keys(cls, data: Any) -> Any:
        """`keys: generated` is short for columns of Kafka's own position, which are the keys."""
        change, source = (data.get(name) if isinstance(data, Mapping) else None for name in ("change", "source"))
        if not isinstance(change, Mapping) or not isinstance(source, Mapping) or change.get("keys") != "generated":
            return data
        metadata = source.get("metadata") or {}
        if isinstance(metadata, Mapping):  # else its own check says what is wrong with it
            metadata = {**metadata, **_POSITION}
        change = {**change, "keys": list(_POSITION)}
        return {**data, "source": {**source, "metadata": metadata}, "change": change}

    @field_validator("name")
    @classmethod
    def _leaves_dag_names_alone(cls, name: str) -> str:
        if "__" in name:
            raise PydanticCustomError("name", "a name without two underscores in a row: `__` parts the names of DAGs")
        return name

    @model_validator(mode="after")
    def _columns_exist(self) -> Pipeline:
        columns = [column.name for column in self.columns]
        named = {
            "change.keys": self.change.keys,
            "change.track_columns": self.change.track_columns,
            "change.previous_keys": tuple(self.change.previous_keys.values()),
            "target.cluster_by": self.target.cluster_by,
        }
        for field, names in named.items():
            for name in names:
                if name not in columns:
                    raise refused(field, f"a column of {self._schema_field}: {', '.join(columns)}", name)
            refuse_doubles(field, names)
        if self.change.absent == "keep" and self.transform is not None:
            raise refused("change.absent", "nulls: a transform's rows have all columns", "keep")
        if self.change.absent == "keep" and not self.source.names_fields:
            raise refused("change.absent", "nulls: such records have all columns", f"keep, with {self.source.format}")
        for name in self.change.previous_keys:
            if name not in self.change.keys:
                raise refused("change.previous_keys", f"a key: {', '.join(self.change.keys)}", name)
        type_of = {column.name: canonical(column.type) for column in self.columns}
        for name in self.change.keys:
            _refuse_nested("change.keys", type_of[name])
        for key, column in self.change.previous_keys.items():
            if type_of[column] != type_of[key]:
                raise refused("change.previous_keys", f"a column of {key}'s type, {type_of[key]}", type_of[column])
        return self

    @model_validator(mode="after")
    def _delta_takes_the_names(self) -> Pipeline:
        """Of the target only: what a transform reads may be called anything."""
        for name in (name for column in self.columns for name in (column.name, *names_within(column.type))):
            if set(name) & _NOT_IN_NAMES:
                allowed = "names without spaces, line ends and any of , ; { } ( ) =, which Delta's tables do not have"
                raise refused(self._schema_field, allowed, name)
        return self

    @model_validator(mode="after")
    def _order_exists(self) -> Pipeline:
        wanted = [("change.order_by", name) for name in self.change.order_by]
        wanted += [("change.valid_from", self.change.valid_from)] if self.change.valid_from else []
        for field, name in wanted:
            if self._order_field(name) is None:
                positions = [KAFKA_TIMESTAMP, *(POSITIONS if self.source.is_debezium else ())]
                known = ", ".join((*(column.name for column in self.columns), *positions))
                raise refused(field, f"a column of {self._schema_field} or a position: {known}", name)
        for order in self.order:
            _refuse_nested("change.order_by", order.type)
            if order.name.lower() in _TIES:
                raise refused("change.order_by", f"another name than {', '.join(_TIES)}, which decide ties", order.name)
        refuse_doubles("change.order_by", self.change.order_by)
        return self

    @model_validator(mode="after")
    def _tombstones_have_key_and_order(self) -> Pipeline:
        """A tombstone has a key and Kafka's own fields, and nothing else."""
        if self.source.key is not None and not {c.name for c in self.source.value_columns} & {*self.change.keys}:
            raise refused("source.key", "a key column in source.schema, which it is for", ", ".join(self.change.keys))
        if self.source.key == "string" and len(self.change.keys) != 1:
            allowed = "json: a key that is a string gives one column"
            raise refused("source.key", allowed, f"{len(self.change.keys)} key columns")
        if self.tombstones != "delete":
            return self
        if self.source.key is None:
            allowed = "source.key: a tombstone's key is in Kafka's key only"
            raise refused("change.tombstones", allowed, "no source.key")
        if set(self.change.placed_by) - {KAFKA_TIMESTAMP}:
            allowed = (
                f"quarantine | ignore; or order_by: [{KAFKA_TIMESTAMP}] or none: a tombstone has no columns to order by"
            )
            raise refused("change.tombstones", allowed, f"order_by: {', '.join(self.change.order_by)}")
        return self

    @model_validator(mode="after")
    def _history_can_be_kept(self) -> Pipeline:
        change, target = self.change, self.target
        if not self.keeps_history:
            for field in ("valid_from", "track_columns"):
                if getattr(change, field):
                    raise refused(f"change.{field}", "history: scd2, or target.history_table", "neither")
            return self
        if not change.order_by:
            raise refused("change.order_by", "at least one column or position: history says since when", "none")
        taken = {column.name.lower() for column in self.columns} & {VALID_FROM, VALID_TO, IS_CURRENT}
        if taken:
            raise refused("source.schema", "other names: history adds columns that are called so", ", ".join(taken))
        if change.history == "scd2" and target.history_table:
            raise refused("target.history_table", "nothing: the target is history itself", target.history_table)
        if change.history == "scd2" and self.maintenance.purge_tombstones_after_days is not None:
            allowed = "null: in history a delete is what ends a row, and is kept"
            found = f"{self.maintenance.purge_tombstones_after_days:g}"
            raise refused("maintenance.purge_tombstones_after_days", allowed, found)
        return self

    @model_validator(mode="after")
    def _truncates_can_be_applied(self) -> Pipeline:
        """A truncate has a place in the order, and no columns."""
        if self.change.truncates != "apply":
            return self
        by_columns = [field.name for field in self.order if field.of in ("column", "field")]
        problems = {
            "source.format debezium-json or debezium-avro": not self.source.is_debezium and self.source.format,
            "one topic, that of the table": len(self.source.topics) != 1 and self.source.topics_in_words,
            "an order_by of positions: a truncate has no columns": ", ".join(by_columns),
            "history: scd1, without history_table and routes": (self.keeps_history or self.target.routes) and "others",
        }
        for allowed, found in problems.items():
            if found:
                raise refused("change.truncates", f"fail | ignore; or, to apply them, {allowed}", str(found))
        return self

    @model_validator(mode="after")
    def _can_rescue(self) -> Pipeline:
        if self.rescues and (self.transform is not None or self.source.format not in ("json", "avro", "protobuf")):
            found = "a transform" if self.transform is not None else self.source.format
            raise refused(
                "change.on_schema_change",
                "add_columns | fail; rescue is for json, avro and protobuf as they are",
                found,
            )
        if self.rescues and self.change.absent == "keep":
            allowed = "add_columns | fail, with `absent: keep`: the next record would take away what this one rescued"
            raise refused("change.on_schema_change", allowed, "rescue")
        if self.rescues and RESCUED in (column.name.lower() for column in self.source.columns):
            raise refused("source.schema", f"another name than {RESCUED}, which is Lakemark's own", RESCUED)
        return self

    @model_validator(mode="after")
    def _tables_differ(self) -> Pipeline:
        if self.target.routes and self.target.history_table:
            raise refused(
                "target.history_table", "nothing, with routes: `history: scd2` keeps that of every table", "one"
            )
        wrong = clash_within(self.places)
        if wrong is not None:
            allowed = "another table than the pipeline's others, and none in the folder of another"
            raise refused(wrong.field, allowed, wrong.table)
        return self

    @model_validator(mode="after")
    def _lands_somewhere(self) -> Pipeline:
        if self.merge_every is not None and self.archive is None:
            raise refused("merge_every", "an `archive`, where batches wait for their MERGE", "no archive")
        return self

    def shown_as(self, written: JsonMapping) -> Pipeline:
        """The same pipeline, which is shown as its file is written."""
        copy = self.model_copy()
        copy._as_shown = as_shown(self, written)
        return copy

    @property
    def for_people(self) -> Pipeline:
        """The pipeline with `${NAME}` in its texts where variables brought them: to be told of, not to be run."""
        return self._as_shown or self

    @property
    def landing(self) -> Pipeline | None:
        """The half that takes batches from Kafka to the archive, which the other half merges from: a pipeline with a
        ledger and generations of its own, whose target is the archive. None without `merge_every`."""
        if self.merge_every is None or self.archive is None:
            return None
        own = {
            "name": f"{self.name}{LANDING}",
            "target": Target(table=self.archive),
            "maintenance": self.maintenance.model_copy(update={"purge_tombstones_after_days": None}),
        }
        none = ("schedule", "stale_after_minutes", "transform", "archive", "merge_every")
        landing = self.model_copy(update={**own, **dict.fromkeys(none), "quality": Quality()})
        landing._as_shown = self._as_shown and self._as_shown.landing
        return landing

    @property
    def halves(self) -> tuple[Pipeline, ...]:
        """What runs, one after the other: with `merge_every` its landing, and the pipeline itself."""
        return (self,) if (landing := self.landing) is None else (landing, self)

    @property
    def is_landing(self) -> bool:
        return self.name.endswith(LANDING)

    @property
    def places(self) -> Iterator[Place]:
        """All tables that the file names, but those that it only waits for."""
        return places_in(self.model_dump(include={"target", "archive", "transform"}))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of the target: the source's, or what the transform makes of them."""
        if self.transform is not None:
            return self.transform.columns
        return (*self.source.columns, *([Column(RESCUED, "STRING")] if self.rescues else []))

    @property
    def rescues(self) -> bool:
        """Whether what the declared columns do not hold is kept."""
        return self.change.on_schema_change == "rescue"

    @property
    def keeps_history(self) -> bool:
        return self.change.history == "scd2" or self.target.history_table is not None

    @property
    def tombstones(self) -> Literal["quarantine", "ignore", "delete"]:
        """What becomes of records without a value."""
        return self.change.tombstones or ("ignore" if self.source.is_debezium else "quarantine")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed, and may not be what was meant."""
        said = [
            f"change.keys has {column.name}, which is {column.type}: two numbers that differ beyond its digits are one "
            "key. Declare DECIMAL"
            for column in self.columns
            if column.name in self.change.keys and column.word in FLOATS
        ]
        if not self.change.order_by and self.change.keys != tuple(_POSITION):
            said.append(
                "change.order_by is empty: offsets alone order the changes of a key. When a topic gets more "
                "partitions, keys move to others, whose offsets do not compare: an older change may then win. Name a "
                f"column or position that orders changes (or {KAFKA_TIMESTAMP}), unless partitions are never added"
            )
        return tuple(said)

    @property
    def has_deletes(self) -> bool:
        """Whether rows may be hidden: readers then leave out `_lakemark.deleted`."""
        return bool(self.change.delete_when) or self.source.is_debezium or self.tombstones == "delete"

    @property
    def deciding_columns(self) -> frozenset[str]:
        """Columns of which a record must not lose one, even where others are rescued: they decide which row it is of,
        which change wins, and what becomes of it."""
        spoken_of = set[str]()
        for condition in (self.source.filter, self.change.delete_when, *(route.when for route in self.target.routes)):
            spoken_of |= columns_in(condition or "")
        placing = self.change.placing_columns
        return frozenset(c.name for c in self.columns if c.name in placing or c.name.lower() in spoken_of)

    @property
    def beyond_deletes(self) -> tuple[str, ...]:
        """Columns that are null in a change which `delete_when` takes for a delete and which holds a key and nothing
        else: what it may hold beside its keys is what orders it, and what the condition speaks of."""
        change = self.change
        kafkas = self.source.metadata if self.transform is None else ()
        spoken_of = columns_in(change.delete_when or "")
        names = (column.name for column in self.columns)
        return tuple(
            n for n in names if n not in {*change.placing_columns, *kafkas, RESCUED} and n.lower() not in spoken_of
        )

    @property
    def seen_by_readers(self) -> str:
        """SQL condition for the rows of the target that are there for its readers."""
        if self.change.history == "scd2":
            return f"{VALID_FROM} IS NOT NULL"
        return f"NOT coalesce({LINEAGE}.deleted, false)"

    @property
    def order(self) -> tuple[OrderField, ...]:
        """What orders changes before topic, partition and offset do."""
        return tuple(field for name in self.change.order_by if (field := self._order_field(name)))

    @property
    def positions(self) -> tuple[str, ...]:
        """Of Debezium, those that the file names."""
        named = dict.fromkeys(self.change.placed_by)
        return tuple(name for name in named if (field := self._order_field(name)) and field.of == "position")

    @property
    def moves_keys(self) -> bool:
        """Whether a change may be one of a row's keys."""
        return bool(self.change.previous_keys) or (self.source.is_debezium and self.transform is None)

    @property
    def valid_from(self) -> OrderField:
        """Since when a state holds, of a pipeline that keeps history."""
        found = self._order_field(self.change.valid_from or self.change.order_by[0])
        assert found is not None, "it has been checked"
        return found._replace(type="TIMESTAMP") if found.of == "position" and found.name in INSTANTS else found

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """Those of `source.value_columns`, of which keys, new and old, are taken only exactly."""
        keys = self.change.all_keys
        return tuple(column._replace(exact=column.name in keys) for column in self.source.value_columns)

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """Columns that a change may not hold, and that then keep what they were."""
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
    def _schema_field(self) -> str:
        return "source.schema" if self.transform is None else "transform.schema"

    def _order_field(self, name: str) -> OrderField | None:
        if (type_ := type_at(self.columns, name)) is not None:
            return OrderField(name, type_, "column" if name in (c.name for c in self.columns) else "field")
        if name == KAFKA_TIMESTAMP:
            return OrderField(name, "TIMESTAMP", "kafka")
        if self.source.is_debezium and name in POSITIONS:
            return OrderField(name, POSITIONS[name], "position")
        return None


def _refuse_nested(field: str, type_: str) -> None:
    """Engines compare these in their own ways, where a part is null, or not at all."""
    if nested(type_):
        raise refused(field, "columns of simple types, or fields of a STRUCT (`meta.lsn`) in an order", type_)
