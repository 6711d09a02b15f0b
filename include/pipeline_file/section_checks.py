"""Checks that the sections of a pipeline file fit together."""

from __future__ import annotations

from include.pipeline_file.apart import clash_within
from include.pipeline_file.change import KAFKA_TIMESTAMP
from include.pipeline_file.debezium import POSITIONS
from include.pipeline_file.declaration import Declaration
from include.pipeline_file.schema_ddl import canonical, names_within, nested
from include.pipeline_file.section import IS_CURRENT, RESCUED, VALID_FROM, VALID_TO, refuse_doubles, refused

# Characters that Parquet does not allow in names of columns. So Delta does not either, without column mapping.
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_TIES = ("_topic", "_partition", "_offset")  # in `_lakemark.change_order`, after what the file orders by


def verify_sections_fit(declared: Declaration) -> None:
    """Raises PydanticCustomError (see `refused`) for the first part that does not fit."""
    _columns_exist(declared)
    _delta_takes_the_names(declared)
    _order_exists(declared)
    _tombstones_have_key_and_order(declared)
    _history_can_be_kept(declared)
    _truncates_can_be_applied(declared)
    _can_rescue(declared)
    _tables_differ(declared)
    _lands_somewhere(declared)


def _columns_exist(declared: Declaration) -> None:
    change = declared.change
    columns = [column.name for column in declared.columns]
    named = {
        "change.keys": change.keys,
        "change.track_columns": change.track_columns,
        "change.previous_keys": tuple(change.previous_keys.values()),
        "target.cluster_by": declared.target.cluster_by,
    }
    for field, names in named.items():
        for name in names:
            if name not in columns:
                raise refused(field, f"a column of {declared.schema_field}: {', '.join(columns)}", name)
        refuse_doubles(field, names)
    if change.absent == "keep" and declared.transform is not None:
        raise refused("change.absent", "nulls: a transform's rows have all columns", "keep")
    if change.absent == "keep" and not declared.source.names_fields:
        raise refused("change.absent", "nulls: such records have all columns", f"keep, with {declared.source.format}")
    for name in change.previous_keys:
        if name not in change.keys:
            raise refused("change.previous_keys", f"a key: {', '.join(change.keys)}", name)
    type_of = {column.name: canonical(column.type) for column in declared.columns}
    for name in change.keys:
        _refuse_nested("change.keys", type_of[name])
    for key, column in change.previous_keys.items():
        if type_of[column] != type_of[key]:
            raise refused("change.previous_keys", f"a column of {key}'s type, {type_of[key]}", type_of[column])


def _delta_takes_the_names(declared: Declaration) -> None:
    """This concerns the target only: columns that a transform reads may have any name."""
    for name in (name for column in declared.columns for name in (column.name, *names_within(column.type))):
        if set(name) & _NOT_IN_NAMES:
            allowed = "names without spaces, line ends and any of , ; { } ( ) =, which Delta's tables do not allow"
            raise refused(declared.schema_field, allowed, name)


def _order_exists(declared: Declaration) -> None:
    wanted = [("change.order_by", name) for name in declared.change.order_by]
    wanted += [("change.valid_from", declared.change.valid_from)] if declared.change.valid_from else []
    for field, name in wanted:
        if declared.order_field(name) is None:
            positions = [KAFKA_TIMESTAMP, *(POSITIONS if declared.source.is_debezium else ())]
            known = ", ".join((*(column.name for column in declared.columns), *positions))
            raise refused(field, f"a column of {declared.schema_field} or a position: {known}", name)
    for order in declared.order:
        _refuse_nested("change.order_by", order.type)
        if order.name.lower() in _TIES:
            raise refused("change.order_by", f"another name than {', '.join(_TIES)}, which decide ties", order.name)
    refuse_doubles("change.order_by", declared.change.order_by)


def _tombstones_have_key_and_order(declared: Declaration) -> None:
    """A tombstone has only a key and Kafka's own fields."""
    change, source = declared.change, declared.source
    if source.key is not None and not {c.name for c in source.value_columns} & {*change.keys}:
        raise refused("source.key", "a key column in source.schema, which it is for", ", ".join(change.keys))
    if source.key == "string" and len(change.keys) != 1:
        allowed = "json: a key that is a string gives one column"
        raise refused("source.key", allowed, f"{len(change.keys)} key columns")
    if declared.tombstones != "delete":
        return
    if source.key is None:
        allowed = "source.key: a tombstone's key is in Kafka's key only"
        raise refused("change.tombstones", allowed, "no source.key")
    if set(change.placed_by) - {KAFKA_TIMESTAMP}:
        allowed = (
            f"quarantine | ignore; or order_by: [{KAFKA_TIMESTAMP}] or none: a tombstone has no columns to order by"
        )
        raise refused("change.tombstones", allowed, f"order_by: {', '.join(change.order_by)}")


def _history_can_be_kept(declared: Declaration) -> None:
    change, target = declared.change, declared.target
    if not declared.keeps_history:
        for field in ("valid_from", "track_columns"):
            if getattr(change, field):
                raise refused(f"change.{field}", "history: scd2, or target.history_table", "neither")
        return
    if not change.order_by:
        raise refused("change.order_by", "at least one column or position: history needs the start of a state", "none")
    taken = {column.name.lower() for column in declared.columns} & {VALID_FROM, VALID_TO, IS_CURRENT}
    if taken:
        raise refused("source.schema", "other names: history adds columns with these names", ", ".join(taken))
    if change.history == "scd2" and target.history_table:
        raise refused("target.history_table", "nothing: the target is history itself", target.history_table)
    if change.history == "scd2" and declared.maintenance.purge_tombstones_after_days is not None:
        allowed = "null: in history a delete is what ends a row, and is kept"
        found = f"{declared.maintenance.purge_tombstones_after_days:g}"
        raise refused("maintenance.purge_tombstones_after_days", allowed, found)


def _truncates_can_be_applied(declared: Declaration) -> None:
    """A truncate has a place in the order, but no columns."""
    if declared.change.truncates != "apply":
        return
    source = declared.source
    by_columns = [field.name for field in declared.order if field.of in ("column", "field")]
    problems = {
        "source.format debezium-json or debezium-avro": not source.is_debezium and source.format,
        "one topic, that of the table": len(source.topics) != 1 and source.topics_in_words,
        "an order_by of positions: a truncate has no columns": ", ".join(by_columns),
        "history: scd1, without history_table and routes": (declared.keeps_history or declared.target.routes)
        and "others",
    }
    for allowed, found in problems.items():
        if found:
            raise refused("change.truncates", f"fail | ignore; or, to apply them, {allowed}", str(found))


def _can_rescue(declared: Declaration) -> None:
    if not declared.rescues:
        return
    change, source = declared.change, declared.source
    if declared.transform is not None or source.format not in ("json", "avro", "protobuf"):
        found = "a transform" if declared.transform is not None else source.format
        allowed = "add_columns | fail; rescue is for json, avro and protobuf as they are"
        raise refused("change.on_schema_change", allowed, found)
    if change.absent == "keep":
        allowed = "add_columns | fail, with `absent: keep`: the next record would take away what this one rescued"
        raise refused("change.on_schema_change", allowed, "rescue")
    if RESCUED in (column.name.lower() for column in source.columns):
        raise refused("source.schema", f"another name than {RESCUED}, which is Lakemark's own", RESCUED)


def _tables_differ(declared: Declaration) -> None:
    if declared.target.routes and declared.target.history_table:
        raise refused("target.history_table", "nothing, with routes: `history: scd2` keeps that of every table", "one")
    wrong = clash_within(declared.places)
    if wrong is not None:
        allowed = "another table than the pipeline's others, and none in the folder of another"
        raise refused(wrong.field, allowed, wrong.table)


def _lands_somewhere(declared: Declaration) -> None:
    if declared.merge_every is not None and declared.archive is None:
        raise refused("merge_every", "an `archive`, where batches wait for their MERGE", "no archive")


def _refuse_nested(field: str, type_: str) -> None:
    """Refuses a nested type. Engines compare nested values with null parts in different ways, or not at all."""
    if nested(type_):
        raise refused(field, "columns of simple types, or fields of a STRUCT (`meta.lsn`) in an order", type_)
