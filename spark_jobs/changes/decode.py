"""Decodes records and judges them: whether each is a change, filtered, or for the quarantine; which rules it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, RESCUED, OrderField, Pipeline
from include.pipeline_file.debezium import INSTANTS
from include.pipeline_file.schema_ddl import Column as SchemaColumn
from include.protocol.batch import Batch
from include.quality.judge import Judge
from spark_jobs.changes import quality
from spark_jobs.changes.conditions import asked, fails, is_true
from spark_jobs.changes.dispositions import ALL_TABLES, TRUNCATE
from spark_jobs.formats import avro, contract, debezium_json, plain_json, plain_text, protobuf
from spark_jobs.formats.contract import ABSENT, DECODED, KIND, NO_VALUE, POSITION, PREVIOUS, PROBLEM, RECORD, field
from spark_jobs.formats.keys import of_kafkas_key, with_kafkas_key
from spark_jobs.formats.moments import moment
from spark_jobs.formats.values import exactly

_FORMATS: Mapping[str, Callable[[DataFrame, Pipeline], DataFrame]] = {
    "json": plain_json.decoded,
    "debezium-json": debezium_json.decoded,
    "avro": avro.decoded,
    "debezium-avro": avro.decoded_debezium,
    "protobuf": protobuf.decoded,
    "csv": plain_text.csv,
    "string": plain_text.string,
}
_REASON, _FILTERED, _BROKEN = f"{LINEAGE}_reason", f"{LINEAGE}_filtered", f"{LINEAGE}_broken"
_DELETED, _UNKNOWN = f"{LINEAGE}_deleted", f"{LINEAGE}_unknown"
_WANTED, _DELETES, _BARE, _TAKES = (f"{LINEAGE}_{name}" for name in ("wanted", "deletes", "bare", "takes"))


def decode(
    records: DataFrame,
    pipeline: Pipeline,
    batch: Batch,
    judge: Judge | None = None,
    transform: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """Records, decoded and judged: one row each, or as many as the transform makes of one that is not set aside.

    A suite judges what can be decoded and is not filtered, except deletes: they carry a key and nothing to judge.

    Columns: key, value, topic, partition, offset, timestamp (and headers) as read; `row`, a struct of the target's
    columns and the lineage struct `_lakemark`; `absent` array<string>, columns that keep what they were (null: none);
    `moved_from`, a struct of the keys that the row had before (null: these); `valid_at`, since when the change holds
    (null without history); `route` int, which one takes the change (null: the target has it, ALL_TABLES: all have);
    `reason` string, why the record is quarantined (null: it is not); `filtered` boolean;
    `judged` boolean, whether the suite speaks of it; `broken`, a struct of booleans, which of its row rules it breaks;
    `rules` array<string>, their names (null: none).
    """
    columns = [column.name for column in pipeline.columns]
    found = _FORMATS[pipeline.source.format](records.select(F.struct("*").alias(RECORD)), pipeline)
    found = with_kafkas_key(found, pipeline)
    # Conditions of the pipeline file speak of the columns by their bare names; Kafka's own, some of which a schema may
    # use as well (`key`, `timestamp` ...), are out of their way in a struct.
    named = found.select("*", *(value.alias(name) for name, value in _columns(pipeline).items()))
    if transform is None:
        named = _with_filter(_with_deletes(named, pipeline), pipeline)
    else:  # what the file says of deletes, keys and routes speaks of what the transform makes
        filtered = _with_filter(named.withColumn(_BARE, F.lit(False)), pipeline)
        named = _with_deletes(_transformed(filtered, pipeline, transform), pipeline)
    known = _with_routes(named, pipeline).withColumn(_UNKNOWN, _problem(pipeline))
    decided = known.select("*", _lineage(pipeline, batch), _reason(pipeline).alias(_REASON))
    judged = F.col(_REASON).isNull() & ~F.col(_FILTERED) & ~F.col(f"{LINEAGE}.deleted")
    if judge is None:
        broken, breaks, rules, judged = F.lit(None), F.lit(None), F.lit(None).cast("array<string>"), F.lit(False)
    else:
        broken, breaks, rules = (
            quality.broken(judge, judged, F.col(ABSENT) if pipeline.partial_columns else None),
            quality.reason(judge, _BROKEN),
            quality.rules(judge, _BROKEN),
        )
    decided = decided.withColumn(_BROKEN, broken)
    found = decided.select(
        f"{RECORD}.*",
        F.struct(*(F.col(f"`{name}`") for name in (*columns, LINEAGE))).alias("row"),
        F.col(ABSENT).alias("absent"),
        _moved_from(pipeline).alias("moved_from"),
        _valid_at(pipeline).alias("valid_at"),
        _route(pipeline).alias("route"),
        F.coalesce(_REASON, breaks).alias("reason"),
        F.col(_FILTERED).alias("filtered"),
        judged.alias("judged"),
        F.col(_BROKEN).alias("broken"),
        rules.alias("rules"),
    )
    if transform is not None:
        return _set_aside_whole(found)
    # Spark looks through a projection: it would decode a record anew for every mention of what was decoded.
    return found.select(F.inline(F.array(F.struct("*"))))


def _transformed(named: DataFrame, pipeline: Pipeline, transform: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """What the transform makes of rows; all else (deletes that hold a key only, what is set aside or left out) goes by
    it with its keys."""
    named = named.localCheckpoint(eager=False)  # or both halves would decode all records
    inner = [RECORD, POSITION, KIND, ABSENT, PREVIOUS, PROBLEM, _FILTERED]
    passes = F.col(PROBLEM).isNull() & (F.col(KIND) == "upsert") & ~F.col(_FILTERED)
    source = {column.name: column.type for column in pipeline.source.columns}
    made = transform(named.where(passes).select(*(F.col(f"`{n}`") for n in source), F.struct(*inner).alias(LINEAGE)))

    def by_it(column: SchemaColumn) -> Column:
        if column.name not in pipeline.change.keys or column.name not in source:
            return F.lit(None).cast(column.type).alias(column.name)
        value = exactly(F.col(f"`{column.name}`"), source[column.name], column, pipeline.source.timestamps)
        return value.alias(column.name)

    names = [F.col(f"`{column.name}`") for column in pipeline.columns]
    rest = named.where(~passes).select(*inner, *map(by_it, pipeline.columns))
    return made.select(f"{LINEAGE}.*", *names).union(rest)


def _set_aside_whole(found: DataFrame) -> DataFrame:
    """A record of several rows is set aside as one, if any of them is: a replay makes all of them again."""
    of_record = Window.partitionBy("topic", "partition", "offset")
    place = F.row_number().over(of_record.orderBy(F.col("reason").asc_nulls_last()))
    reason = F.min("reason").over(of_record)
    columns = [F.col(name) for name in found.columns if name != "reason"]
    whole = found.select(*columns, reason.alias("reason"), place.alias(_BROKEN))
    return whole.where(F.col("reason").isNull() | (F.col(_BROKEN) == 1)).select(*found.columns)


def _columns(pipeline: Pipeline) -> dict[str, Column]:
    """The source's columns by name: of the value, of Kafka's key where the value has none, of Kafka's own fields."""
    of_key = of_kafkas_key(pipeline)
    found = {column.name: field(DECODED, column.name) for column in pipeline.source.value_columns}
    found |= {name: F.coalesce(found[name], value) for name, value in of_key.items()}
    places = {*pipeline.change.keys, *(order.name for order in pipeline.order)}
    own = {name: _own(of, name in places) for name, of in pipeline.source.metadata.items()}
    return {**found, **own, **({RESCUED: F.col(contract.RESCUED_JSON)} if pipeline.rescues else {})}


def _own(of: str, is_place: bool) -> Column:
    """One of Kafka's own fields, or the last header of a name. Bytes become text; what is not UTF-8 of them becomes the
    replacement character, since readers of the table may stumble over anything else.

    Args:
        is_place: it is a key, or orders: null then, or two keys would become one.
    """

    def text(value: Column) -> Column:
        return (F.try_validate_utf8 if is_place else F.make_valid_utf8)(value.cast("string"))

    part, _, name = of.partition(".")
    value = F.col(f"{RECORD}.{part}")
    if name:
        return text(F.try_element_at(F.filter(value, lambda header: header["key"] == name), F.lit(-1))["value"])
    match part:
        case "key":
            return text(value)
        case "headers":
            return F.transform(value, lambda h: F.struct(h["key"].alias("key"), text(h["value"]).alias("value")))
        case "offset":
            return value.cast("bigint")
        case _:
            return value


def _problem(pipeline: Pipeline) -> Column:
    """Why nothing can be made of a record: the format's reason, but for tombstones that are taken for deletes or left
    out; or a condition of the file that cannot be asked of it."""
    problem = F.col(PROBLEM)
    problem = problem if pipeline.tombstones == "quarantine" else F.when(~_is_tombstone(), problem)
    said = [problem]
    if "timestamp" in pipeline.source.metadata.values() or any(order.of == "kafka" for order in pipeline.order):
        said.append(F.when(F.col(f"{RECORD}.timestamp").isNull(), "Kafka's timestamp is in no year of 1 to 9999"))
    if pipeline.change.delete_when:
        said.append(F.when(fails(F.col(_DELETES)), "change.delete_when fails on this record"))
    if pipeline.target.routes:
        said.append(F.when(F.exists(_TAKES, fails), "a condition of target.routes fails on this record"))
    return F.coalesce(*said)


def _is_tombstone() -> Column:
    return F.coalesce(F.col(PROBLEM) == NO_VALUE, F.lit(False))


def _with_deletes(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """With what `delete_when` says, _DELETED, and _BARE: whether a change deletes a key and holds nothing else."""
    condition = pipeline.change.delete_when
    deleted = F.col(KIND).isin("delete", "truncate")
    deleted = deleted | _is_tombstone() if pipeline.tombstones == "delete" else deleted
    bare = F.col(KIND).isin("delete", "truncate") | _is_tombstone()
    if condition:
        named = named.withColumn(_DELETES, asked(condition))
        says_so = is_true(F.col(_DELETES))
        others = F.array(F.lit(False), *(F.col(f"`{name}`").isNotNull() for name in pipeline.beyond_deletes))
        deleted, bare = deleted | says_so, bare | (says_so & ~F.array_contains(others, True))
    return named.drop(_BARE).select("*", deleted.alias(_DELETED), bare.alias(_BARE))


def _with_filter(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """With _FILTERED; a record of which the condition cannot be asked has a PROBLEM.

    A delete that has a key and nothing else is not asked for its other columns: the row has to go.
    """
    condition, none = pipeline.source.filter, _is_none(pipeline)
    if not condition:
        return named.withColumn(_FILTERED, none)
    is_asked = ~F.col(KIND).isin("delete", "truncate") & ~_is_tombstone() & ~F.col(_BARE)
    named = named.withColumn(_WANTED, F.when(is_asked, asked(condition)).otherwise("true"))
    failed = F.when(fails(F.col(_WANTED)), "source.filter fails on this record")
    named = named.withColumn(PROBLEM, F.coalesce(PROBLEM, failed))
    return named.withColumn(_FILTERED, none | (~fails(F.col(_WANTED)) & ~is_true(F.col(_WANTED))))


def _with_routes(named: DataFrame, pipeline: Pipeline) -> DataFrame:
    """With _TAKES, what every route says of a record: an array of answers."""
    if not pipeline.target.routes:
        return named
    answers = (
        asked(route.when) if route.when else F.col(f"{RECORD}.topic").isin(*route.topics).cast("string")
        for route in pipeline.target.routes
    )
    return named.withColumn(_TAKES, F.array(*answers))


def _lineage(pipeline: Pipeline, batch: Batch) -> Column:
    """The struct that says where a row's present state comes from, and how it is ordered (I9)."""
    position = {name: F.col(f"{RECORD}.{name}") for name in ("topic", "partition", "offset")}
    return F.struct(
        F.lit(batch.generation).alias("generation"),
        F.lit(batch.batch_id).cast("bigint").alias("batch_id"),
        *(column.alias(name) for name, column in position.items()),
        F.struct(
            *(column.alias(name) for name, column in _order(pipeline).items()),
            *(column.alias(f"_{name}") for name, column in position.items()),
        ).alias("change_order"),
        F.col(_DELETED).alias("deleted"),
    ).alias(LINEAGE)


def _moved_from(pipeline: Pipeline) -> Column:
    """The row's keys as they were, if the change is one of the keys."""
    keys, named = pipeline.change.keys, pipeline.change.previous_keys
    if named:
        before = {key: F.col(f"`{column}`") for key, column in named.items()}
    elif pipeline.moves_keys:
        columns = {column.name for column in pipeline.source.value_columns}
        before = {key: F.col(PREVIOUS)[key] for key in keys if key in columns}
    else:
        before = {}
    type_of = {column.name: column.type for column in pipeline.columns}
    types = ", ".join(f"`{key}`: {type_of[key]}" for key in keys)
    if not before:
        return F.lit(None).cast(f"STRUCT<{types}>")
    old = {key: F.coalesce(before[key], F.col(f"`{key}`")) if key in before else F.col(f"`{key}`") for key in keys}
    differs = reduce(or_, (old[key] != F.col(f"`{key}`") for key in before))
    return F.when(differs, F.struct(*(value.alias(key) for key, value in old.items())))


def _route(pipeline: Pipeline) -> Column:
    """The first route that takes a change, by its place in the file."""
    if not pipeline.target.routes:
        return F.lit(None).cast("int")
    found = F.when(F.col(_BARE), ALL_TABLES)
    for place in range(len(pipeline.target.routes)):
        found = found.when(is_true(F.get(_TAKES, F.lit(place))), place)
    return found


def _valid_at(pipeline: Pipeline) -> Column:
    if not pipeline.keeps_history:
        return F.lit(None)
    order = pipeline.valid_from
    found = _position(order)
    if order.of != "position" or order.name not in INSTANTS:
        return found
    return moment(found, F.lit(INSTANTS[order.name]))


def _order(pipeline: Pipeline) -> dict[str, Column]:
    return {order.name: _position(order) for order in pipeline.order}


def _position(order: OrderField) -> Column:
    match order.of:
        case "kafka":
            return F.col(f"{RECORD}.timestamp")
        case "position":
            return field(POSITION, order.name)
        case "column":
            return F.col(f"`{order.name}`")
        case "field":
            return F.col(".".join(f"`{part}`" for part in order.name.split(".")))


def _reason(pipeline: Pipeline) -> Column:
    def any_null(columns: Iterable[Column]) -> Column:
        return reduce(or_, (column.isNull() for column in columns), F.lit(False))

    keys, order = pipeline.change.keys, _order(pipeline)
    if pipeline.keeps_history:
        order[pipeline.valid_from.name] = _valid_at(pipeline)
    truncate = F.col(KIND) == "truncate"
    is_change = ~_is_none(pipeline)
    if pipeline.transform is not None:  # what is left out goes by it, without most of its columns
        is_change &= ~F.col(_FILTERED)
    no_key = ~truncate & any_null(F.col(f"`{name}`") for name in keys)
    return (
        F.when(truncate & F.lit(pipeline.change.truncates == "fail"), TRUNCATE)
        .when(F.col(_UNKNOWN).isNotNull(), F.col(_UNKNOWN))
        .when(is_change & no_key, f"null in a key column ({', '.join(keys)})")
        .when(is_change & any_null(order.values()), f"null in an order column ({', '.join(order)})")
    )


def _is_none(pipeline: Pipeline) -> Column:
    """Whether a record is no change of a row: a tombstone to be left out, a message of Debezium's, a truncate that is
    not applied."""
    none = F.col(KIND).isin("none", *([] if pipeline.change.truncates == "apply" else ["truncate"]))
    if pipeline.tombstones == "quarantine":
        return none
    return F.when(_is_tombstone(), F.lit(pipeline.tombstones == "ignore")).otherwise(none)
