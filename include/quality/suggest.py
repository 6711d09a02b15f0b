"""Drafts a suite from a sample of records: rules that hold for all of them, with the reason for each rule.

A draft warns and stops nothing: what is true for a sample need not be true for all. A person reads it, removes rules,
and gives the others their policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import duckdb

from include.lake.sql import sql_name
from include.pipeline_file import Pipeline
from include.pipeline_file.schema_ddl import DECIMALS, FLOATS, WHOLE, Column
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonObject
from include.protocol.ranges import OffsetRange
from include.sources.duckdb_records import decoded, load
from include.sources.kafka import source_extent
from include.sources.kafka_records import records_of

_VALUES_MAX = 20  # so many different values may become a set
_SHAPES = {  # of texts: pattern and what it is called, the narrowest first
    r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$": "a UUID",
    r"^[A-Z]+$": "capital letters",
    r"^[0-9]+$": "digits",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$": "a mail address",
}


@dataclass(frozen=True)
class Profile:
    """The values of one column in a sample."""

    column: Column
    records: int
    nulls: int
    distinct: int
    low: Any = None  # of numbers: the least and the greatest value; of texts: the least and the greatest length
    high: Any = None
    values: Sequence[str] = ()  # of texts, if they are few
    shape: str | None = None  # pattern that every text fits


def suggest(pipeline: Pipeline, records: int) -> JsonObject:
    """A suite, as Great Expectations writes it, from the newest records of every partition.

    Args:
        records: how many to look at, in all.

    Raises:
        RetryableError: Kafka does not answer. TerminalError: there is no record that decodes.
    """
    profiles = _profiles(pipeline, records)
    total = profiles[0].records
    rules = [rule for profile in profiles for rule in _rules(profile)]
    note = f"Drafted from the newest {total:,} records that decode. Every rule warns: give a policy to those you trust."
    meta = {"great_expectations_version": version("great-expectations")}
    return {"name": pipeline.name, "expectations": rules, "meta": meta, "notes": note}


def _rules(profile: Profile) -> Iterator[JsonObject]:
    name, seen = profile.column.name, profile.records - profile.nulls
    if profile.nulls == 0:
        yield _rule("expect_column_values_to_not_be_null", f"no null in {profile.records:,} records", column=name)
    elif profile.nulls / profile.records < 0.05:
        mostly = math.floor((1 - profile.nulls / profile.records) * 100) / 100
        reason = f"{profile.nulls:,} nulls in {profile.records:,} records"
        yield _rule("expect_column_values_to_not_be_null", reason, column=name, mostly=mostly)
    if not seen:
        return
    if profile.column.word in (*WHOLE, *FLOATS, *DECIMALS):
        low, high = _widened(profile.low, profile.high)
        reason = f"all of {seen:,} values between {profile.low:,} and {profile.high:,}; widened by half of that span"
        yield _rule("expect_column_values_to_be_between", reason, column=name, min_value=low, max_value=high)
    if profile.column.word == "STRING":
        if profile.values and seen >= 20 * len(profile.values):
            reason = f"only {len(profile.values)} different values among {seen:,}"
            yield _rule("expect_column_values_to_be_in_set", reason, column=name, value_set=list(profile.values))
            return
        if profile.low == profile.high:
            reason = f"all of {seen:,} texts have this length"
            yield _rule("expect_column_value_lengths_to_equal", reason, column=name, value=profile.low)
        if profile.shape is not None:
            reason = f"every one of {seen:,} texts is {_SHAPES[profile.shape]}"
            yield _rule("expect_column_values_to_match_regex", reason, column=name, regex=profile.shape)


def _rule(type_: str, reason: str, **kwargs: Any) -> JsonObject:
    """A drafted rule. The reason stands where Great Expectations keeps a person's notes about a rule."""
    return {"type": type_, "kwargs": kwargs, "meta": {"lakemark": {"on_fail": "warn"}}, "notes": reason}


def _widened(low: float, high: float) -> tuple[float, float]:
    """Bounds with room for values that the sample does not have. If no value is negative, the bounds are not either."""
    room = (high - low) / 2
    least, most = low - room, high + room
    if isinstance(low, int) and isinstance(high, int):
        least, most = math.floor(least), math.ceil(most)
    return (max(least, 0) if low >= 0 else least), most


def _profiles(pipeline: Pipeline, records: int) -> list[Profile]:
    columns = pipeline.source.columns
    database = duckdb.connect()
    load(database, pipeline, records_of(pipeline.source, _newest(pipeline, records)))
    database.execute(
        f"CREATE TABLE sample AS SELECT * FROM ({decoded(pipeline, 'records')}) "
        "WHERE NOT _undecodable AND NOT _tombstone"
    )
    [(total,)] = database.execute("SELECT count(*) FROM sample").fetchall()
    if not total:
        raise TerminalError(
            what="there is nothing to draft a suite from",
            where=pipeline.source.topics_in_words,
            expected="records that the declared schema decodes",
            found="none among the newest",
            action=f"produce some, or see `lakemark quarantine list {pipeline.name}`",
        )
    return [_profile(database, column, total) for column in columns]


def _newest(pipeline: Pipeline, records: int) -> list[OffsetRange]:
    partitions = source_extent(pipeline.source).partitions
    share = max(1, records // max(1, len(partitions)))
    ranges = (
        OffsetRange(*tp, max(extent.log_start_offset, extent.end_offset - share), extent.end_offset)
        for tp, extent in sorted(partitions.items())
        if extent.end_offset > extent.log_start_offset
    )
    return list(ranges)


def _profile(database: duckdb.DuckDBPyConnection, column: Column, total: int) -> Profile:
    name = sql_name(column.name)
    counts = f"SELECT count(*) - count({name}), count(DISTINCT {name}::VARCHAR) FROM sample"
    [(nulls, distinct)] = database.execute(counts).fetchall()
    profile = Profile(column, total, nulls, distinct)
    more: JsonMapping = {}
    if profile.column.word in (*WHOLE, *FLOATS, *DECIMALS):
        kind = "DOUBLE" if profile.column.word in (*FLOATS, *DECIMALS) else "BIGINT"
        query = f"SELECT min({name})::{kind}, max({name})::{kind} FROM sample WHERE isfinite({name}::DOUBLE)"
        [(low, high)] = database.execute(query).fetchall()
        more = {"low": low, "high": high}
    elif profile.column.word == "STRING" and distinct:
        [(low, high)] = database.execute(f"SELECT min(length({name})), max(length({name})) FROM sample").fetchall()
        values = ()
        if distinct <= _VALUES_MAX:
            rows = database.execute(
                f"SELECT DISTINCT {name} FROM sample WHERE {name} IS NOT NULL ORDER BY 1"
            ).fetchall()
            values = tuple(value for (value,) in rows)
        more = {"low": low, "high": high, "values": values, "shape": _shape(database, name)}
    return Profile(column, total, nulls, distinct, **more)


def _shape(database: duckdb.DuckDBPyConnection, name: str) -> str | None:
    for pattern in _SHAPES:
        query = f"SELECT bool_and(regexp_matches({name}, ?)) FROM sample WHERE {name} IS NOT NULL"
        if database.execute(query, [pattern]).fetchall() == [(True,)]:
            return pattern
    return None
