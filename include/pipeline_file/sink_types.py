"""The types of columns in databases outside the lake, for each type that a lake's column may have. Pure."""

from __future__ import annotations

import re

from include.pipeline_file.schema_ddl import canonical, word_of

DECLARED = r"^[A-Za-z][A-Za-z0-9_ ]{0,60}(\(\d{1,5}(,\s*\d{1,3})?\))?( [A-Za-z0-9_ ]{1,60})?$"  # as a file may have one
_POSTGRESQL = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "STRING": "text",
    "BINARY": "bytea",
    "DATE": "date",
    "TIMESTAMP": "timestamp with time zone",
    "TIMESTAMP_NTZ": "timestamp without time zone",
}
_MYSQL = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "longtext",
    "BINARY": "longblob",
    "DATE": "date",
    "TIMESTAMP": "datetime(6)",  # in UTC; TIMESTAMP ends in 2038
    "TIMESTAMP_NTZ": "datetime(6)",
}
_OF_KEYS = {"mysql": {"STRING": "varchar(255)", "BINARY": "varbinary(255)"}}  # an index has no column without a length
_NESTED = {"postgresql": "jsonb", "mysql": "json"}
_SIMPLE = {"postgresql": _POSTGRESQL, "mysql": _MYSQL}


def usual_type(system: str, type_: str, is_key: bool) -> str:
    """The type that a system's column has for a column of the lake, unless the file declares another one.

    Args:
        type_: as Spark's DDL has it.
    """
    plain = canonical(type_)
    word = word_of(plain)
    if word == "DECIMAL":
        return plain.replace("DECIMAL", "numeric").replace(",", ", ")
    if is_key and (of_key := _OF_KEYS.get(system, {}).get(word)) is not None:
        return of_key
    return _SIMPLE[system].get(word, _NESTED[system])


def is_type(text: str) -> bool:
    """Whether a text may be a type in a statement."""
    return re.fullmatch(DECLARED, text) is not None
