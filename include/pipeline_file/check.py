"""What a check of a pipeline file is: it finds what does not fit together among fields that are right by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from include.pipeline_file.declaration import Declaration
from include.protocol.errors import Problem

SOURCE_COLUMNS = {"source.schema", "source.metadata", "change.keys"}  # `keys: generated` adds columns
COLUMNS = {*SOURCE_COLUMNS, "transform", "change.on_schema_change"}  # what the target's columns follow from

Find = Callable[[Declaration], Iterator[Problem]]


class Check(NamedTuple):
    find: Find
    reads: Set[str]  # fields, or sections

    def depends_on(self, fields: Set[str]) -> bool:
        """Whether it reads one of these fields, a section around one, or a part of one."""
        return any(f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.") for a in self.reads for b in fields)


def reads(fields: Set[str]) -> Callable[[Find], Check]:
    """Makes a check of a function that reads these fields."""
    return lambda find: Check(find, fields)
