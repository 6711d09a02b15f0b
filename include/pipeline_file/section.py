"""The base of all sections of the pipeline file, and the checks that they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, LiteralString, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from include.pipeline_file.schema_ddl import SchemaError, parse_ddl
from include.protocol.errors import Problem

TABLE = r"^lake://[A-Za-z0-9_][A-Za-z0-9_\-./]*$"
NAME = r"^[a-z][a-z0-9_]{0,62}$"
CONNECTION = r"^[A-Za-z0-9_.\-]{1,200}$"  # as Airflow allows ids, without those that no variable can have
LANDING = "__landing"  # suffix of the half that takes records to the archive; no file's name contains `__`
LINEAGE = "_lakemark"  # the struct column that Lakemark adds to every row
RESCUED = "_rescued"  # column for values that fit no declared column, as JSON
VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"  # columns of history

Condition = Annotated[str, Field(max_length=10_000)]  # in Spark's SQL
_PART_MAX, _TABLE_MAX = 200, 1_000  # what file systems and Airflow's assets take
HOURS_MAX = 1_000_000  # of every time span in a file, in whatever unit: what dates can still be computed with

_HOST = r"(\[[0-9A-Fa-f:.%\w]+\]|[\w.\-]+)(:\d+)?"
SERVERS = rf"([A-Z_]+://)?{_HOST}(\s*,\s*([A-Z_]+://)?{_HOST})*"
FILE = r"(?!.*://).*"
URL = rf"https?://{_HOST}(/[\w.~\-/]*)?"


_NUMBERS: dict[type, Literal["int_type", "float_type"]] = {int: "int_type", float: "float_type"}


class Section(BaseModel):
    """A section. Errors and logs show none of its values, since a variable may bring a secret to any place."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        """Without this, pydantic would take `true` for 1."""
        if isinstance(value, bool) and info.field_name is not None:
            allowed = cls.model_fields[info.field_name].annotation
            for number, kind in _NUMBERS.items():
                if allowed is number or number in get_args(allowed):
                    raise PydanticKnownError(kind)
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from ((None, name) for name in sorted(self.model_fields_set))


def refused(field: str, allowed: str, found: str) -> PydanticCustomError:
    """The error that a validator raises about one field, or about fields that do not fit together."""
    return PydanticCustomError("column", "{allowed}", {"field": field, "allowed": allowed, "found": found})


def refused_all(type_: LiteralString, problems: Sequence[Problem]) -> PydanticCustomError:
    """The error that a validator raises about several things at once."""
    told = {"told": "; ".join(map(str, problems)), "problems": problems}
    return PydanticCustomError(type_, "{told}", told)


def only_address(pattern: str, allowed: str) -> Callable[[str | None], str | None]:
    """A validator that refuses what is not a plain address, without showing it. Logs, errors and the ledger contain the
    address, so it must not contain a login."""

    def check(text: str | None) -> str | None:
        if text is not None and not re.fullmatch(pattern, text):
            raise PydanticCustomError("address", f"{allowed}, without a login in it")
        return text

    return check


def refuse_unreadable(ddl: str) -> str:
    """Refuses Spark DDL that cannot be parsed, or that has names which are Lakemark's own."""
    try:
        columns = parse_ddl(ddl)
    except SchemaError as error:
        raise PydanticCustomError("schema", "{problem}", {"problem": str(error)}) from error
    if any(column.name.lower().startswith(LINEAGE) for column in columns):
        raise PydanticCustomError("schema", f"columns with other names than {LINEAGE}..., which are Lakemark's own")
    return ddl


def refuse_climbing(table: str | None) -> str | None:
    """Refuses a table outside the lake, or where Lakemark or Delta keeps its own files."""
    parts = (table or "lake://t").removeprefix("lake://").casefold().split("/")
    if {"", ".", "..", "_delta_log"} & set(parts) or parts[0] == "_lakemark":
        raise PydanticCustomError("table", "a table inside the lake, outside lake://_lakemark/ and any _delta_log")
    if max(map(len, parts)) > _PART_MAX or sum(map(len, parts)) > _TABLE_MAX:
        allowed = f"parts of at most {_PART_MAX} characters, and at most {_TABLE_MAX:,} in all"
        raise PydanticCustomError("table", "{allowed}", {"allowed": allowed})
    return table
