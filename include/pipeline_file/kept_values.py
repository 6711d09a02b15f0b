"""Does a type of a database keep every value of a type of the lake? Pure.

A server refuses most values that do not fit a column. Some it cuts or rounds in silence, by the rules of its types. So
a column of a sink has a type that keeps every value of the lake's, or else the server refuses the value.

Source: PostgreSQL's documentation, "Data Types"; MySQL's and MariaDB's manuals, "Data Types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from include.pipeline_file.schema_ddl import DECIMALS, WHOLE, canonical, nested, scale_of, word_of
from include.pipeline_file.sink_types import usual_type

# Other names of types, as people write them.
_SYNONYMS = {
    "postgresql": {
        "bool": "boolean",
        "int2": "smallint",
        "int": "integer",
        "int4": "integer",
        "int8": "bigint",
        "serial": "integer",
        "bigserial": "bigint",
        "float4": "real",
        "float8": "double precision",
        "float": "double precision",
        "decimal": "numeric",
        "dec": "numeric",
        "varchar": "character varying",
        "char": "character",
        "bpchar": "character",
        "timestamptz": "timestamp with time zone",
        "timestamp": "timestamp without time zone",
    },
    "mysql": {
        "bool": "tinyint",
        "boolean": "tinyint",
        "integer": "int",
        "numeric": "decimal",
        "dec": "decimal",
        "fixed": "decimal",
        "double precision": "double",
        "real": "double",
        "character varying": "varchar",
        "character": "char",
    },
}
_TEXTS = {
    "postgresql": ("text", "character varying"),
    "mysql": ("longtext", "mediumtext", "text", "tinytext", "varchar"),
}
_WHOLE_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
_EXACT = {"postgresql": "numeric", "mysql": "decimal"}
# Types that keep every value beside texts, by the lake's type.
_KEEP = {
    "postgresql": {
        "BOOLEAN": ("boolean",),
        "TINYINT": ("real", "double precision"),
        "SMALLINT": ("real", "double precision"),
        "INT": ("double precision",),
        "FLOAT": ("real", "double precision"),
        "DOUBLE": ("double precision",),
        "BINARY": ("bytea",),
        "DATE": ("date", "timestamp without time zone"),
        "TIMESTAMP": ("timestamp with time zone", "timestamp without time zone"),  # sessions are in UTC
        "TIMESTAMP_NTZ": ("timestamp without time zone",),
    },
    "mysql": {
        "BOOLEAN": _WHOLE_NUMBERS,
        "TINYINT": ("float", "double"),
        "SMALLINT": ("float", "double"),
        "INT": ("double",),
        "FLOAT": ("float", "double"),
        "DOUBLE": ("double",),
        "BINARY": ("longblob", "mediumblob", "blob", "tinyblob", "varbinary"),
        "DATE": ("date", "datetime"),
        "TIMESTAMP": ("datetime", "timestamp"),
        "TIMESTAMP_NTZ": ("datetime",),
    },
}
_JSON = ("json", "jsonb")
# Types that make another value of a text: they cut or fill it up, or read it as a number or a time.
_OTHER_THAN_TEXTS = {
    "postgresql": (
        *("character", "name", "boolean", "smallint", "integer", "bigint", "numeric", "real", "double precision"),
        *("money", "date", "time without time zone", "time with time zone", "timestamp with time zone", "time"),
        *("timestamp without time zone", "interval", "bytea", "bit", "bit varying", "inet", "cidr", "macaddr"),
    ),
    "mysql": (
        *("char", "boolean", *_WHOLE_NUMBERS, "decimal", "float", "double", "bit", "date", "time", "datetime", "year"),
        *("timestamp", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "enum", "set"),
        *("inet4", "inet6"),
    ),
}
_MICROSECONDS = 6  # digits of a second
_SIGNS = ("unsigned", "signed", "zerofill")


@dataclass(frozen=True)
class TypeAtSink:
    """A type of a system: `numeric`, (38, 18)."""

    system: str
    base: str
    arguments: tuple[int, ...] = ()

    @classmethod
    def read(cls, system: str, text: str) -> Self:
        """Args: text: as a statement or a server's catalog has it."""
        found = re.fullmatch(r"([^()]*)(?:\(([^()]*)\))?([^()]*)", text.strip().lower())
        if found is None:
            return cls(system, text)
        before, arguments, after = found.groups()
        base = " ".join(word for word in f"{before} {after}".split() if word not in _SIGNS)
        numbers = tuple(int(one) for one in re.findall(r"\d+", arguments or ""))
        return cls(system, _SYNONYMS[system].get(base, base), numbers)

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.base}({', '.join(map(str, self.arguments))})" if self.arguments else self.base

    def keeps(self, type_: str) -> bool:
        """Whether a column of it keeps each value of a type of the lake, or the server refuses the value."""
        plain = canonical(type_)
        word = word_of(plain)
        if word == "STRING":
            return self.base not in _OTHER_THAN_TEXTS[self.system]
        if nested(plain) is not None:
            return self.base in (*_TEXTS[self.system], *_JSON)
        if self.base in _TEXTS[self.system]:
            return word != "BINARY"
        if word in WHOLE and (self.base in _WHOLE_NUMBERS or self._digits >= 0):
            return True
        if word in DECIMALS:
            scale = scale_of(plain)
            return self._digits >= scale or (scale == 0 and self.base in _WHOLE_NUMBERS)
        return self.base in _KEEP[self.system].get(word, ()) and not self._rounds

    @property
    def _digits(self) -> float:
        """How many digits after the point it keeps of every number; -1: it is no exact number."""
        if self.base != _EXACT[self.system]:
            return -1
        if not self.arguments:
            return float("inf") if self.system == "postgresql" else 0
        return self.arguments[1] if len(self.arguments) > 1 else 0

    @property
    def _rounds(self) -> bool:
        """Whether it keeps less of a second, or of a number, than its family could."""
        if self.base.startswith(("timestamp", "datetime")):
            usual = _MICROSECONDS if self.system == "postgresql" else 0
            return (self.arguments or (usual,))[0] < _MICROSECONDS
        return self.base in ("float", "double", "double precision", "real") and bool(self.arguments)


def keeping(system: str, type_: str, is_key: bool) -> str:
    """In words: types that keep each value of a type of the lake."""
    usual = usual_type(system, type_, is_key)
    more = "" if word_of(canonical(type_)) in ("STRING", "BINARY") else " or text"
    return f"a type that keeps every value of {type_}, like {usual}{more}"
