"""Checks that the fields of section `source` fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from include.pipeline_file.check import reads
from include.pipeline_file.declaration import Declaration
from include.pipeline_file.schema_ddl import DECIMALS, TIMESTAMPS, keys_of_maps, nested, word_of, words_in
from include.protocol.errors import Problem


@reads({"source.security"})
def _sasl_is_complete(declared: Declaration) -> Iterator[Problem]:
    security = declared.source.security
    if security is None or not security.protocol.startswith("SASL"):
        return
    sasl: dict[str, object] = {"mechanism": security.mechanism}
    if security.connection is None:
        sasl |= {"username": security.username, "password": security.password}
    for name, value in sasl.items():
        if value is None:
            yield Problem(f"source.security.{name}", "a value, for SASL", "nothing")


@reads({"source.security", "source.registry"})
def _one_login(declared: Declaration) -> Iterator[Problem]:
    security, registry = declared.source.security, declared.source.registry
    for field, section in (("source.security", security), ("source.registry", registry)):
        if section is None or section.connection is None:
            continue
        for name, value in (("username", section.username), ("password", section.password)):
            if value is not None:
                yield Problem(f"{field}.{name}", "nothing: the connection says it", "a value")
    if security is not None and security.connection is not None and not security.protocol.startswith("SASL"):
        yield Problem("source.security.protocol", "SASL_SSL or SASL_PLAINTEXT, for a login", repr(security.protocol))


@reads({"source.topics", "source.topics_pattern"})
def _topics_are_named(declared: Declaration) -> Iterator[Problem]:
    source = declared.source
    if bool(source.topics) == (source.topics_pattern is not None):
        found = "both" if source.topics else "neither"
        yield Problem("source.topics", "at least one topic; or topics_pattern", found)


@reads({"source.metadata", "source.schema", "change.keys"})
def _names_are_free(declared: Declaration) -> Iterator[Problem]:
    taken = {column.name.lower() for column in declared.source.value_columns}
    for name in declared.source.metadata:
        if name.lower() in taken or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            allowed = "a name of letters, digits and _ that source.schema does not have"
            yield Problem("source.metadata", allowed, repr(name))


@reads({"source.format", "source.key", "source.registry"})
def _registry_is_there(declared: Declaration) -> Iterator[Problem]:
    source = declared.source
    if {"avro", "debezium-avro", "protobuf"} & {source.key, source.format} and source.registry is None:
        yield Problem("source.registry", "where the schemas of the records are: {url: ...}", "nothing")


@reads({"source.format", "source.timestamps"})
def _debezium_says_its_units(declared: Declaration) -> Iterator[Problem]:
    source = declared.source
    if source.timestamps is not None and source.is_debezium:
        allowed = "nothing, with Debezium: debezium.timestamps says it"
        yield Problem("source.timestamps", allowed, repr(source.timestamps))


@reads({"source.format", "source.schema"})
def _format_holds_the_types(declared: Declaration) -> Iterator[Problem]:
    source, field = declared.source, "source.schema"
    if source.format == "string" and [column.word for column in source.value_columns] != ["STRING"]:
        yield Problem(field, "one column of type STRING: the whole value", repr(source.schema_))
    for column in source.value_columns:
        if source.format == "csv" and nested(column.type):
            allowed = "simple types: the fields of a line are texts"
            yield Problem(field, allowed, f"{column.name} {column.type}")
        is_encoded = bool({*words_in(column.type)} & {"DATE", *TIMESTAMPS, *DECIMALS})
        if source.format == "debezium-json" and nested(column.type) and is_encoded:
            allowed = "STRING for dates, times and decimals within other types: only debezium-avro says what they are"
            yield Problem(field, allowed, f"{column.name} {column.type}")
        if any(word_of(key) != "STRING" for key in keys_of_maps(column.type)):
            yield Problem(field, "maps whose keys are STRING: records have no other keys", column.type)


@reads({"source.key", "source.schema", "change.keys"})
def _key_has_key_columns(declared: Declaration) -> Iterator[Problem]:
    change, source = declared.change, declared.source
    if source.key is not None and not {c.name for c in source.value_columns} & {*change.keys}:
        yield Problem("source.key", "a key column in source.schema, which it is for", ", ".join(change.keys))
    if source.key == "string" and len(change.keys) != 1:
        allowed = "json: a key that is a string gives one column"
        yield Problem("source.key", allowed, f"{len(change.keys)} key columns")


CHECKS = (
    _sasl_is_complete,
    _one_login,
    _topics_are_named,
    _names_are_free,
    _registry_is_there,
    _debezium_says_its_units,
    _format_holds_the_types,
    _key_has_key_columns,
)
