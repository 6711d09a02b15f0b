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
_NESTED = {"postgresql": "jsonb"}
_SIMPLE = {"postgresql": _POSTGRESQL}


def usual_type(system: str, type_: str) -> str:
    """The type that a system's column has for a column of the lake, unless the file declares another one.

    Args:
        type_: as Spark's DDL has it.
    """
    plain = canonical(type_)
    word = word_of(plain)
    if word == "DECIMAL":
        return plain.replace("DECIMAL", "numeric").replace(",", ", ")
    return _SIMPLE[system].get(word, _NESTED[system])


def is_type(text: str) -> bool:
    """Whether a text may be a type in a statement."""
    return re.fullmatch(DECLARED, text) is not None
