"""Checks that the columns which a pipeline file names are there, and can be what they are named for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from include.pipeline_file.change import KAFKA_TIMESTAMP
from include.pipeline_file.check import COLUMNS, SOURCE_COLUMNS, reads
from include.pipeline_file.condition import names_beyond
from include.pipeline_file.debezium import POSITIONS
from include.pipeline_file.declaration import Declaration
from include.pipeline_file.in_words import near
from include.pipeline_file.schema_ddl import Column, canonical, names_within, nested
from include.pipeline_file.section import LINEAGE, RESCUED
from include.protocol.errors import Problem

# Characters that Parquet does not allow in names of columns. So Delta does not either, without column mapping.
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_TIES = ("_topic", "_partition", "_offset")  # in `_lakemark.change_order`, after what the file orders by
_SHOWN_MAX = 100  # columns in a problem
_CONDITIONS_MAX = 100_000  # characters of one file; they take a fifth of a second to parse


@reads({*COLUMNS, "change.track_columns", "change.previous_keys", "target.cluster_by"})
def _columns_exist(declared: Declaration) -> Iterator[Problem]:
    change, columns = declared.change, {column.name: canonical(column.type) for column in declared.columns}
    named = {
        "change.keys": change.keys,
        "change.track_columns": change.track_columns,
        "change.previous_keys": tuple(change.previous_keys.values()),
        "target.cluster_by": declared.target.cluster_by,
    }
    for field, names in named.items():
        yield from (_no_column(field, name, declared.schema_field, [*columns]) for name in names if name not in columns)
        yield from _doubles(field, names)
    for name in change.keys:
        yield from _nested("change.keys", columns.get(name, ""))
    for key, column in change.previous_keys.items():
        if key not in change.keys:
            yield Problem("change.previous_keys", f"a key: {', '.join(change.keys)}", repr(key))
        elif {key, column} <= columns.keys() and columns[column] != columns[key]:
            yield Problem("change.previous_keys", f"a column of {key}'s type, {columns[key]}", columns[column])


@reads({*SOURCE_COLUMNS, "change.on_schema_change", "source.filter"})
def _filter_names_columns(declared: Declaration) -> Iterator[Problem]:
    columns = [*declared.source.columns, *([Column(RESCUED, "STRING")] if declared.rescues else [])]
    yield from _names("source.filter", declared.source.filter, "source.schema", columns)


@reads({*COLUMNS, "change.delete_when", "target.routes"})
def _conditions_name_columns(declared: Declaration) -> Iterator[Problem]:
    conditions = [("change.delete_when", declared.change.delete_when)]
    conditions += [(f"target.routes.{n}.when", route.when) for n, route in enumerate(declared.target.routes)]
    length = sum(len(condition or "") for _, condition in conditions)
    if length > _CONDITIONS_MAX:
        allowed = f"conditions of at most {_CONDITIONS_MAX:,} characters together"
        yield Problem("target.routes", allowed, f"{length:,} characters")
        return
    for field, condition in conditions:
        yield from _names(field, condition, declared.schema_field, declared.columns)


@reads({"change.absent", "source.format", "transform"})
def _absence_is_known(declared: Declaration) -> Iterator[Problem]:
    if declared.change.absent != "keep":
        return
    if declared.transform is not None:
        yield Problem("change.absent", "nulls: a transform's rows have all columns", "'keep'")
    if not declared.source.names_fields:
        allowed, found = "nulls: such records have all columns", f"'keep', with {declared.source.format}"
        yield Problem("change.absent", allowed, found)


@reads({*COLUMNS})
def _delta_takes_the_names(declared: Declaration) -> Iterator[Problem]:
    """This concerns the target only: columns that a transform reads may have any name."""
    for name in (name for column in declared.columns for name in (column.name, *names_within(column.type))):
        if set(name) & _NOT_IN_NAMES:
            allowed = "names without spaces, line ends and any of , ; { } ( ) =, which Delta's tables do not allow"
            yield Problem(declared.schema_field, allowed, repr(name))


@reads({*COLUMNS, "change.order_by", "change.valid_from", "source.format"})
def _order_exists(declared: Declaration) -> Iterator[Problem]:
    wanted = [("change.order_by", name) for name in declared.change.order_by]
    wanted += [("change.valid_from", declared.change.valid_from)] if declared.change.valid_from else []
    for field, name in wanted:
        if declared.order_field(name) is None:
            positions = [KAFKA_TIMESTAMP, *(POSITIONS if declared.source.is_debezium else ())]
            known = ", ".join((*(column.name for column in declared.columns), *positions))
            yield Problem(field, f"a column of {declared.schema_field} or a position: {known}", repr(name))
    for order in declared.order:
        yield from _nested("change.order_by", order.type)
        if order.name.lower() in _TIES:
            allowed = f"another name than {', '.join(_TIES)}, which decide ties"
            yield Problem("change.order_by", allowed, repr(order.name))
    yield from _doubles("change.order_by", declared.change.order_by)


def _names(field: str, condition: str | None, schema: str, columns: Sequence[Column]) -> Iterator[Problem]:
    """The columns that a condition names and that are not there."""
    known = [column.name for column in columns]
    for name in names_beyond(condition or "", (*known, LINEAGE)):
        yield _no_column(field, name, schema, known)


def _no_column(field: str, name: str, schema: str, columns: Sequence[str]) -> Problem:
    return Problem(field, f"a column of {schema}{near(name, columns)}: {', '.join(columns[:_SHOWN_MAX])}", repr(name))


def _doubles(field: str, names: tuple[str, ...]) -> Iterator[Problem]:
    if len(set(names)) != len(names):
        yield Problem(field, "every column once", ", ".join(names))


def _nested(field: str, type_: str) -> Iterator[Problem]:
    """Refuses a nested type. Engines compare nested values with null parts in different ways, or not at all."""
    if nested(type_):
        yield Problem(field, "columns of simple types, or fields of a STRUCT (`meta.lsn`) in an order", type_)


CHECKS = (
    _columns_exist,
    _filter_names_columns,
    _conditions_name_columns,
    _absence_is_known,
    _delta_takes_the_names,
    _order_exists,
)
