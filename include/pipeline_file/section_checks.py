"""Checks that the sections of a pipeline file fit together."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain, islice

from include.pipeline_file import column_checks, sink_checks, source_checks
from include.pipeline_file.apart import clash_within
from include.pipeline_file.change import KAFKA_TIMESTAMP
from include.pipeline_file.check import COLUMNS, reads
from include.pipeline_file.declaration import Declaration
from include.pipeline_file.schedule import OnData, in_words
from include.pipeline_file.section import IS_CURRENT, RESCUED, VALID_FROM, VALID_TO
from include.protocol.errors import Problem

_PROBLEMS_MAX = 100


def problems_between(declared: Declaration, without: Set[str] = frozenset()) -> list[Problem]:
    """What does not fit together.

    Args:
        without: fields that have a problem of their own, or sections around such a field. What depends on them is left
            out.
    """
    checks = (*source_checks.CHECKS, *column_checks.CHECKS, *_CHECKS, *sink_checks.CHECKS)
    found = chain.from_iterable(check.find(declared) for check in checks if not check.depends_on(without))
    return list(dict.fromkeys(islice(found, _PROBLEMS_MAX)))


@reads({"target.routes"})
def _routes_take_something(declared: Declaration) -> Iterator[Problem]:
    for route in declared.target.routes:
        if (route.when is None) == (not route.topics):
            allowed = "`when` or `topics`, for every route"
            yield Problem("target.routes", allowed, "both" if route.topics else "neither")


@reads({"source.key", "source.format", "change.tombstones", "change.order_by", "change.valid_from"})
def _tombstones_have_key_and_order(declared: Declaration) -> Iterator[Problem]:
    """A tombstone has only a key and Kafka's own fields."""
    change = declared.change
    if declared.tombstones != "delete":
        return
    if declared.source.key is None:
        allowed = "source.key: a tombstone's key is in Kafka's key only"
        yield Problem("change.tombstones", allowed, "no source.key")
    if set(change.placed_by) - {KAFKA_TIMESTAMP}:
        allowed = (
            f"quarantine | ignore; or order_by: [{KAFKA_TIMESTAMP}] or none: a tombstone has no columns to order by"
        )
        yield Problem("change.tombstones", allowed, f"order_by: {', '.join(change.order_by)}")


@reads({*COLUMNS, "change", "target.history_table", "maintenance.purge_tombstones_after_days"})
def _history_can_be_kept(declared: Declaration) -> Iterator[Problem]:
    change, target = declared.change, declared.target
    if not declared.keeps_history:
        for field in ("valid_from", "track_columns"):
            if getattr(change, field):
                yield Problem(f"change.{field}", "history: scd2, or target.history_table", "neither")
        return
    if not change.order_by:
        allowed = "at least one column or position: history needs the start of a state"
        yield Problem("change.order_by", allowed, "none")
    taken = {column.name.lower() for column in declared.columns} & {VALID_FROM, VALID_TO, IS_CURRENT}
    if taken:
        allowed = "other names: history adds columns with these names"
        yield Problem(declared.schema_field, allowed, ", ".join(sorted(taken)))
    if change.history == "scd2" and target.history_table:
        yield Problem("target.history_table", "nothing: the target is history itself", repr(target.history_table))
    if change.history == "scd2" and declared.maintenance.purge_tombstones_after_days is not None:
        allowed = "null: in history a delete is what ends a row, and is kept"
        found = f"{declared.maintenance.purge_tombstones_after_days:g}"
        yield Problem("maintenance.purge_tombstones_after_days", allowed, found)


@reads({"change", "source.format", "source.topics", "target.history_table", "target.routes", *COLUMNS})
def _truncates_can_be_applied(declared: Declaration) -> Iterator[Problem]:
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
            yield Problem("change.truncates", f"fail | ignore; or, to apply them, {allowed}", str(found))


@reads({"change.on_schema_change", "change.absent", "source.format", "source.schema", "transform"})
def _can_rescue(declared: Declaration) -> Iterator[Problem]:
    if not declared.rescues:
        return
    change, source, field = declared.change, declared.source, "change.on_schema_change"
    if declared.transform is not None or source.format not in ("json", "avro", "protobuf"):
        found = "a transform" if declared.transform is not None else source.format
        yield Problem(field, "add_columns | fail; rescue is for json, avro and protobuf as they are", found)
    if change.absent == "keep":
        allowed = "add_columns | fail, with `absent: keep`: the next record would take away what this one rescued"
        yield Problem(field, allowed, "'rescue'")
    if RESCUED in (column.name.lower() for column in source.columns):
        yield Problem("source.schema", f"another name than {RESCUED}, which is Lakemark's own", repr(RESCUED))


@reads({"target", "archive", "transform.references"})
def _tables_differ(declared: Declaration) -> Iterator[Problem]:
    if declared.target.routes and declared.target.history_table:
        allowed = "nothing, with routes: `history: scd2` keeps that of every table"
        yield Problem("target.history_table", allowed, "one")
    wrong = clash_within(declared.places)
    if wrong is not None:
        allowed = "another table than the pipeline's others, and none in the folder of another"
        yield Problem(wrong.field, allowed, repr(wrong.table))


@reads({"merge_every", "archive"})
def _lands_somewhere(declared: Declaration) -> Iterator[Problem]:
    if declared.merge_every is not None and declared.archive is None:
        yield Problem("merge_every", "an `archive`, where batches wait for their MERGE", "no archive")


@reads({"merge_every", "checkpoints.rehearse"})
def _can_be_rehearsed(declared: Declaration) -> Iterator[Problem]:
    if declared.merge_every is not None and declared.checkpoints.rehearse is not None:
        allowed = "null, with `merge_every`: a pipeline of two halves cannot begin with a savepoint"
        yield Problem("checkpoints.rehearse", allowed, repr(declared.checkpoints.rehearse))


@reads({"schedule", "group"})
def _group_waits_for_data(declared: Declaration) -> Iterator[Problem]:
    if declared.group is not None and not isinstance(declared.schedule, OnData):
        allowed = "`on_data` or `continuous`: a group serves its pipelines when they have new data"
        yield Problem("schedule", allowed, in_words(declared.schedule))


_CHECKS = (
    _group_waits_for_data,
    _routes_take_something,
    _tombstones_have_key_and_order,
    _history_can_be_kept,
    _truncates_can_be_applied,
    _can_rescue,
    _tables_differ,
    _lands_somewhere,
    _can_be_rehearsed,
)
