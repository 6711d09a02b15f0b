"""Reads Spark's schema DDL without a JVM: the names and types of columns.

Spark parses the same string in the job. It is read here too, so that the check of the file finds errors in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SIMPLE = frozenset(
    (
        *("BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT"),
        *("FLOAT", "REAL", "DOUBLE", "DEC", "DECIMAL", "NUMERIC"),
        *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    )
)
# Groups of types, by their first words.
WHOLE = ("BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT")
FLOATS = ("FLOAT", "REAL", "DOUBLE")
DECIMALS = ("DEC", "DECIMAL", "NUMERIC")
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_SYNONYMS = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
_DEPTH_MAX = 50
_SPACES = re.compile(r"(`[^`]*`|'[^']*')|\s+")
_COLUMNS_MAX = 2_000
_COLUMN = re.compile(r"^(?:`(?P<quoted>[^`]+)`|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))\s+(?P<type>.+)$", re.DOTALL)

_FIELD = re.compile(r"^(?:`(?P<quoted>[^`]+)`|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))\s*(?::|\s)\s*(?P<type>.+)$", re.DOTALL)


class SchemaError(ValueError):
    """The DDL string is not valid. The message says what is allowed."""


class Column(NamedTuple):
    name: str
    type: str  # as written, without NOT NULL and COMMENT
    exact: bool = False  # never round or cut a value to fit the type: two keys would become one

    @property
    def word(self) -> str:
        """The type's first word, in capitals: DECIMAL for `decimal(12, 2)`."""
        return word_of(self.type)


def word_of(type_: str) -> str:
    """A type's first word, in capitals (see `Column.word`)."""
    word = re.match(r"\s*(\w+)", type_)
    assert word is not None, "types are checked where they are read"
    return word[1].upper()


def scale_of(type_: str) -> int:
    """How many digits after the decimal point a DECIMAL declares."""
    declared = re.search(r",\s*(\d+)", type_)
    return int(declared[1]) if declared else 0


def nested(type_: str) -> tuple[str, str] | None:
    """ARRAY, MAP or STRUCT, and the text between its brackets; None for a simple type."""
    found = re.fullmatch(r"(ARRAY|MAP|STRUCT)\s*<(.*)>", type_.strip(), flags=re.IGNORECASE | re.DOTALL)
    return (found[1].upper(), found[2]) if found else None


def parse_ddl(ddl: str) -> tuple[Column, ...]:
    """The columns of DDL such as `a BIGINT, b STRUCT<c: STRING>`. Raises SchemaError."""
    ddl = _SPACES.sub(lambda found: found[1] or " ", ddl)  # many spaces cost much in what follows
    columns = tuple(_column(part) for part in split(ddl))
    if not columns:
        raise SchemaError("at least one column, like `id BIGINT`")
    if len(columns) > _COLUMNS_MAX:
        raise SchemaError(f"at most {_COLUMNS_MAX:,} columns, not {len(columns):,}")
    times = Counter(column.name.lower() for column in columns)
    twice = sorted(name for name, number in times.items() if number > 1)
    if twice:
        raise SchemaError(f"every column once (Spark ignores case); more than once: {', '.join(twice)}")
    return columns


def fields_of(inner: str) -> tuple[Column, ...]:
    """The fields in the text between the brackets of a STRUCT."""
    found = (_FIELD.match(part.strip()) for part in split(inner))
    return tuple(Column(f["quoted"] or f["plain"], f["type"].strip()) for f in found if f)


def keys_of_maps(type_: str) -> Iterator[str]:
    """The key types of all maps in a type."""
    match nested(type_):
        case ("STRUCT", inner):
            for field in fields_of(inner):
                yield from keys_of_maps(field.type)
        case ("MAP", inner):
            keys, values = split(inner)
            yield keys.strip()
            yield from keys_of_maps(values)
        case ("ARRAY", inner):
            yield from keys_of_maps(inner)


def canonical(type_: str) -> str:
    """A type of Spark's DDL in one unique form: `STRUCT<a:INT,b:DECIMAL(10,2)>`."""
    text = type_.strip()
    found = nested(text)
    if found is None:
        word, arguments = re.fullmatch(r"(\w+)\s*(\(.*\))?", text).groups()  # type: ignore[union-attr]
        name = _SYNONYMS.get(word.upper(), word.upper())
        given = re.sub(r"\s", "", arguments or "")
        if name == "DECIMAL":
            given = {"": "(10,0)"}.get(given, given if "," in given else given.replace(")", ",0)"))
        return name + given
    kind, parts = found
    if kind == "STRUCT":
        inner = ",".join(f"{named(field.name)}:{canonical(field.type)}" for field in fields_of(parts))
    else:
        inner = ",".join(map(canonical, split(parts)))
    return f"{kind}<{inner}>"


def named(name: str) -> str:
    """A name as DDL writes it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII) else f"`{name}`"


def words_in(type_: str) -> Iterator[str]:
    """The first words of all simple types in a type."""
    match nested(type_):
        case None:
            yield word_of(type_)
        case ("STRUCT", inner):
            for field in fields_of(inner):
                yield from words_in(field.type)
        case (_, inner):
            for part in split(inner):
                yield from words_in(part)


def names_within(type_: str) -> Iterator[str]:
    """The names of all fields of structs in a type."""
    match nested(type_):
        case ("STRUCT", inner):
            for field in fields_of(inner):
                yield field.name
                yield from names_within(field.type)
        case (_, inner):
            for part in split(inner):
                yield from names_within(part)


def type_at(columns: Sequence[Column], path: str) -> str | None:
    """The type of a column, or of a field in a struct (`source.lsn`); None if there is none with that name."""
    for column in columns:
        if column.name == path:
            return column.type
        match nested(column.type):
            case ("STRUCT", inner) if path.startswith(f"{column.name}."):
                return type_at(fields_of(inner), path.removeprefix(f"{column.name}."))
    return None


def _column(text: str) -> Column:
    match = _COLUMN.match(text.strip())
    if match is None:
        raise SchemaError(f"`NAME TYPE` for every column, not {text.strip()!r}")
    name = match["quoted"] or match["plain"]
    type_ = re.sub(r"\s+(NOT\s+NULL|COMMENT\s+'[^'\\]*')$", "", match["type"].strip(), flags=re.IGNORECASE)
    _check_type(name, type_)
    return Column(name, type_)


def _check_type(name: str, type_: str, depth: int = 0) -> None:
    """Checks that every word of a type is known, since types are written into SQL as they are."""
    if depth > _DEPTH_MAX:
        raise SchemaError(f"a type for {name} with at most {_DEPTH_MAX} levels of nesting")
    found = nested(type_)
    if found is None:
        word = re.fullmatch(r"(\w+)(\s*\(\s*\d+\s*(,\s*\d+\s*)?\))?", type_.strip())
        if word is None or word[1].upper() not in _SIMPLE:
            allowed = ", ".join(sorted(_SIMPLE)) + ", ARRAY<...>, MAP<..., ...>, STRUCT<NAME: ..., ...>"
            raise SchemaError(f"a type for {name} among {allowed}; not {type_!r}")
        return
    kind, parts = found[0], split(found[1])
    if len(parts) != {"ARRAY": 1, "MAP": 2}.get(kind, len(parts)) or not parts:
        raise SchemaError(f"{'one type' if kind == 'ARRAY' else 'two types'} in the {kind} of {name}, not {type_!r}")
    for part in parts:
        field = _FIELD.match(part.strip()) if kind == "STRUCT" else None
        if kind == "STRUCT" and field is None:
            raise SchemaError(f"`NAME: TYPE` for every field of {name}, not {part.strip()!r}")
        _check_type(name, field["type"] if field else part, depth + 1)


def split(ddl: str) -> list[str]:
    """Splits at the commas outside <>, (), `` and ''."""
    parts, depth, quote, start = [], 0, "", 0
    for n, character in enumerate(ddl):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(ddl[start:n])
            start = n + 1
    if depth or quote:
        raise SchemaError("as many closing as opening brackets and quotes")
    parts.append(ddl[start:])
    return [part for part in parts if part.strip()]
