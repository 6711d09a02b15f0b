"""Checks that a pipeline's sinks fit its target, and each other."""

from __future__ import annotations

from collections.abc import Iterator

from include.pipeline_file.check import COLUMNS, reads
from include.pipeline_file.declaration import Declaration
from include.pipeline_file.in_words import near
from include.pipeline_file.kept_values import TypeAtSink, keeping
from include.pipeline_file.schema_ddl import DECIMALS, scale_of
from include.pipeline_file.sink_columns import FLAG, PROGRESS_TOPIC, columns_of_rows, own_names, sink_columns
from include.pipeline_file.sink_types import is_type
from include.pipeline_file.sinks import Sink
from include.protocol.errors import Problem

_DELETES = {"kafka": ("tombstone", "flag"), "postgresql": ("delete", "flag"), "mysql": ("delete", "flag")}
_NAME_BYTES_MAX = 63  # PostgreSQL's documentation, "Identifiers and Key Words"
_SCALE_MAX = 30  # MySQL's manual, "Fixed-Point Types"


@reads({"sinks", "change", *COLUMNS})
def _columns_are_there(declared: Declaration) -> Iterator[Problem]:
    there = {column.name.lower(): column.name for column in columns_of_rows(declared)} if declared.sinks else {}
    for name, sink in declared.sinks.items():
        for at_sink, of in sink.columns.items():
            if of.lower() not in there:
                allowed = f"a column of the target: {', '.join(there.values())}{near(of, [*there.values()])}"
                yield Problem(f"sinks.{name}.columns.{at_sink}", allowed, repr(of))
        lower = [at_sink.lower() for at_sink in sink.columns]
        if len(set(lower)) < len(lower):
            yield Problem(f"sinks.{name}.columns", "names that differ in more than case", ", ".join(sink.columns))
        own = own_names(declared, sink)
        if taken := [at for at in sink.columns or there.values() if at.lower() in own]:
            allowed = f"{{NAME AT THE SINK: COLUMN}} with other names than Lakemark's own: {', '.join(sorted(own))}"
            yield Problem(f"sinks.{name}.columns", allowed, ", ".join(taken))


@reads({"sinks", "change", *COLUMNS})
def _keys_are_delivered(declared: Declaration) -> Iterator[Problem]:
    """Each key column exactly once: a row is found at the sink by its key."""
    for name, sink in declared.sinks.items():
        delivered = [of.lower() for of in sink.columns.values()]
        for key in declared.change.keys if sink.columns else ():
            if (times := delivered.count(key.lower())) != 1:
                yield Problem(f"sinks.{name}.columns", f"the key column {key}, once", f"it {times} times")


@reads({"sinks", "change", *COLUMNS})
def _types_are_of_columns(declared: Declaration) -> Iterator[Problem]:
    for name, sink in declared.sinks.items():
        there = {column.name: column for column in sink_columns(declared, sink)}
        for at_sink, type_ in sink.types.items():
            if at_sink not in there:
                allowed = f"a column at the sink: {', '.join(there)}{near(at_sink, [*there])}"
                yield Problem(f"sinks.{name}.types.{at_sink}", allowed, "another one")
            elif not is_type(type_):
                allowed = "a type of the system, like varchar(200) or timestamp(6) with time zone"
                yield Problem(f"sinks.{name}.types.{at_sink}", allowed, repr(type_))
            elif sink.system in ("postgresql", "mysql"):
                column = there[at_sink]
                if not TypeAtSink.read(sink.system, type_).keeps(column.type):
                    allowed = keeping(sink.system, column.type, is_key=column.is_key)
                    yield Problem(f"sinks.{name}.types.{at_sink}", allowed, repr(type_))


@reads({"sinks", *COLUMNS})
def _names_are_short(declared: Declaration) -> Iterator[Problem]:
    """PostgreSQL cuts a name that is too long, and says so to nobody."""
    for name, sink in declared.sinks.items():
        for column in sink_columns(declared, sink) if sink.postgresql is not None else ():
            if len(column.name.encode()) > _NAME_BYTES_MAX:
                allowed = f"names of at most {_NAME_BYTES_MAX} bytes in UTF-8 at the sink, as PostgreSQL keeps them"
                yield Problem(f"sinks.{name}.columns", allowed, column.name)


@reads({"sinks", "source.topics", "source.topics_pattern"})
def _topics_differ(declared: Declaration) -> Iterator[Problem]:
    """A sink that wrote into a topic that the pipeline reads would feed it for ever."""
    own = [(name, sink.kafka) for name, sink in declared.sinks.items() if sink.kafka is not None]
    progress = {PROGRESS_TOPIC.format(topic.topic): name for name, topic in own}
    for name, topic in own:
        if topic.topic in progress:
            allowed = f"another topic: {progress[topic.topic]} keeps its progress there"
            yield Problem(f"sinks.{name}.kafka.topic", allowed, repr(topic.topic))
        written = (topic.topic, PROGRESS_TOPIC.format(topic.topic))
        if topic.bootstrap_servers is None and any(map(declared.source.reads, written)):
            yield Problem(f"sinks.{name}.kafka.topic", "a topic that the pipeline does not read", repr(topic.topic))


@reads({"sinks"})
def _tables_differ(declared: Declaration) -> Iterator[Problem]:
    taken: dict[object, str] = {}
    for name, sink in declared.sinks.items():
        place = sink.model_dump(include={sink.system}, exclude={sink.system: {"username", "password", "ca_file"}})
        if sink.files is not None:  # `out` and `out/` are one folder
            place["files"]["path"] = sink.files.path.rstrip("/")
        if (other := taken.setdefault(repr(place), name)) != name:
            yield Problem(f"sinks.{name}.{sink.system}", "a table that no other sink writes", f"that of {other}")


@reads({"sinks", "change", "target.routes", *COLUMNS})
def _systems_can_do_it(declared: Declaration) -> Iterator[Problem]:
    for name, sink in declared.sinks.items():
        kinds = _DELETES.get(sink.system, ())
        if sink.deletes is not None and sink.deletes not in kinds:
            wanted = " | ".join(kinds) or "nothing: the sink gets the keys that are gone"
            yield Problem(f"sinks.{name}.deletes", f"{wanted}, for {sink.system}", repr(sink.deletes))
        if sink.types and sink.system not in ("postgresql", "mysql"):
            yield Problem(f"sinks.{name}.types", f"nothing: {sink.system} has no types of columns", "types")
        yield from _of_two_phases(name, sink)
        yield from _of_upserts(name, sink)
        yield from _of_own_tables(name, sink)
        yield from _of_changes(name, sink, declared)
        yield from _of_routes(name, sink, declared)
        if sink.files is not None and sink.guarantee != "exactly_once":
            yield Problem(f"sinks.{name}.guarantee", "exactly_once: one file publishes a delivery", sink.guarantee)
        if sink.kafka is not None and sink.kafka.key == "string" and len(declared.change.keys) != 1:
            yield Problem(f"sinks.{name}.kafka.key", "json: the key has several columns", "'string'")
        if sink.mysql is not None:
            for column in columns_of_rows(declared):
                if column.word in DECIMALS and scale_of(column.type) > _SCALE_MAX and column.name not in sink.types:
                    allowed = f"a type for {column.name}: MySQL has at most {_SCALE_MAX} digits after the point"
                    yield Problem(f"sinks.{name}.types", allowed, column.type)


def _of_changes(name: str, sink: Sink, declared: Declaration) -> Iterator[Problem]:
    if sink.what != "changes":
        return
    if sink.deletes is not None:
        yield Problem(f"sinks.{name}.deletes", f"nothing, with `what: changes`: {FLAG} says it", sink.deletes)
    if "begin" in sink.model_fields_set and sink.begin == "snapshot":
        yield Problem(f"sinks.{name}.begin", "start or now, with `what: changes`", "snapshot")
    if declared.change.truncates == "apply":
        yield Problem(f"sinks.{name}.what", "rows: a truncate is no change of a row (`change.truncates`)", "changes")
    if declared.partial_columns:
        yield Problem(
            f"sinks.{name}.what", "rows: a change may leave columns out (`change.partial_columns`)", "changes"
        )


def _of_routes(name: str, sink: Sink, declared: Declaration) -> Iterator[Problem]:
    if (sink.what == "route") != (sink.route is not None):
        told = "none" if sink.route is None else sink.route
        yield Problem(f"sinks.{name}.route", "a route's table with `what: route`, and none without", told)
    elif sink.route is not None:
        tables = [route.table for route in declared.target.routes]
        if sink.route not in tables:
            allowed = f"one of target.routes: {', '.join(tables) or 'there is none'}{near(sink.route, tables)}"
            yield Problem(f"sinks.{name}.route", allowed, sink.route)
        if sink.mode == "two_phase":
            allowed = "follow, with `what: route`: only the target's commit can be prepared for"
            yield Problem(f"sinks.{name}.mode", allowed, "two_phase")


def _of_own_tables(name: str, sink: Sink) -> Iterator[Problem]:
    if sink.system in ("postgresql", "mysql"):
        table = sink.database.table.rpartition(".")[2].lower()
        if table.startswith("lakemark_"):
            allowed = "a name that does not begin with lakemark_: those are Lakemark's own"
            yield Problem(f"sinks.{name}.{sink.system}.table", allowed, repr(sink.database.table))


def _of_upserts(name: str, sink: Sink) -> Iterator[Problem]:
    if sink.mode != "upsert":
        return
    if sink.system not in ("postgresql", "mysql"):
        yield Problem(f"sinks.{name}.mode", f"follow: {sink.system} needs no upsert", "upsert")
    if sink.what == "changes":
        yield Problem(f"sinks.{name}.what", "rows, with `mode: upsert`: changes have no key", sink.what)
    if sink.guarantee != "exactly_once":
        yield Problem(f"sinks.{name}.guarantee", "nothing, with `mode: upsert`: it says it", sink.guarantee)


def _of_two_phases(name: str, sink: Sink) -> Iterator[Problem]:
    if sink.mode != "two_phase":
        if sink.mysql is not None and sink.mysql.binary_log is not None:
            yield Problem(
                f"sinks.{name}.mysql.binary_log", f"nothing, with `mode: {sink.mode}`", repr(sink.mysql.binary_log)
            )
        return
    if sink.kafka is not None:
        allowed = "follow: Kafka's own two-phase commit (KIP-939) is not there for clients yet, and a transaction that "
        yield Problem(f"sinks.{name}.mode", f"{allowed}waits for the lake would be aborted after a while", "two_phase")
    if sink.files is not None:
        allowed = "follow: files are written aside, and one file publishes them after the lake's commit"
        yield Problem(f"sinks.{name}.mode", allowed, "two_phase")
    if sink.guarantee != "exactly_once":
        yield Problem(f"sinks.{name}.guarantee", "exactly_once, with `mode: two_phase`", sink.guarantee)


CHECKS = (
    _columns_are_there,
    _keys_are_delivered,
    _types_are_of_columns,
    _names_are_short,
    _topics_differ,
    _tables_differ,
    _systems_can_do_it,
)
