"""The shape of what a sink holds: where its rows are, and in which columns. Pure.

A sink goes on from where it stands only with rows of the same shape. Else the rows that it has would lack what the next
ones bring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from include.protocol.errors import ProgressUnreadable, TerminalError


@dataclass(frozen=True)
class SinkShape:
    """Args: into: the table, topic or folder. columns: where each column comes from, by its name at the sink."""

    into: str
    columns: Mapping[str, str]

    def dumps(self) -> str:
        return json.dumps({"into": self.into, "columns": dict(sorted(self.columns.items()))})

    @classmethod
    def loads(cls, text: str) -> Self:
        return cls(**json.loads(text))


def verify_goes_on(found: str | None, now: SinkShape, grows: bool, where: str, anew: str) -> None:
    """Checks that a sink can go on with rows of a shape.

    Args:
        found: the shape of the rows that it has, as its progress says; None: it has none, or does not say it. grows:
            it has all columns of the target, so a further one is null in all rows that were delivered before. anew: how
            a person lets the sink begin anew.

    Raises:
        TerminalError: it cannot. ProgressUnreadable: no delivery has written `found`.
    """
    if found is None:
        return
    try:
        before = SinkShape.loads(found)
    except (ValueError, TypeError) as error:
        raise ProgressUnreadable(
            what="the progress of a sink cannot be read",
            where=where,
            expected="the shape of its rows, as a delivery has written it",
            found="another text",
            action=anew,
        ) from error
    if before.into != now.into:
        raise _differs(where, before.into, now.into, what="the sink's rows are in another place", anew=anew)
    gone = [name for name, of in before.columns.items() if now.columns.get(name) != of]
    more = [name for name in now.columns if name not in before.columns]
    if gone or (more and not grows):
        expected, told = (_told(columns) for columns in (before.columns, now.columns))
        raise _differs(where, expected, told, what="the sink's rows have other columns", anew=anew)


def _told(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} from {of}" for name, of in sorted(columns.items()))


def _differs(where: str, expected: str, found: str, what: str, anew: str) -> TerminalError:
    return TerminalError(
        what=f"{what} than its section of the pipeline file says",
        where=where,
        expected=expected,
        found=found,
        action=f"let the section say what it said before; or, with the new one: {anew}",
    )
