"""Section `transform`: how decoded records are transformed before they are judged and merged."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import Field, field_validator

from include.pipeline_file.schema_ddl import Column, parse_ddl
from include.pipeline_file.section import NAME, TABLE, Section, refuse_unreadable, refused

FILE_NAME = r"^[a-z][a-z0-9_]{0,62}\.(sql|py)$"
CHANGES = "changes"  # the name of the decoded records in SQL


class Transform(Section):
    """A file in include/transforms/: one SELECT from `changes`, or a Python function
    `transform(changes, references)` on DataFrames. `_lakemark` must come out as it went in."""

    file: str = Field(pattern=FILE_NAME, description="In include/transforms/: NAME.sql | NAME.py")
    schema_: str = Field(alias="schema", description="The columns that come out, which are the target's, as Spark DDL.")
    references: Mapping[str, str] = Field(
        default={},
        max_length=100,
        description="Delta tables to join with: {NAME: lake://layer/table}. They are read in the version that they had "
        "when the batch was planned.",
    )

    _readable = field_validator("schema_")(refuse_unreadable)

    @field_validator("references")
    @classmethod
    def _references_are_tables(cls, references: Mapping[str, str]) -> Mapping[str, str]:
        for name, table in references.items():
            field = f"transform.references.{name}"
            if not re.fullmatch(NAME, name) or name == CHANGES:
                allowed = f"a name of lower-case letters, digits and _ that begins with a letter; and not {CHANGES}"
                raise refused(field, allowed, name)
            if not re.fullmatch(TABLE, table) or {"", ".", ".."} & set(table.removeprefix("lake://").split("/")):
                raise refused(field, "lake://layer/table", table)
        return references

    @property
    def columns(self) -> tuple[Column, ...]:
        return parse_ddl(self.schema_)
