"""The form of the backfill DAG: its choices, and the request that its values make."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from include.control.backfill_request import BackfillRequest, Source
from include.control.quarantine import Chosen
from include.control.sink_form import deliver_of
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping
from include.protocol.ranges import OffsetRange

T = TypeVar("T")
RANGES, TIMES, BATCHES, QUARANTINE, ARCHIVE, NEW_TABLE, DISCARD, CANCEL = (
    "offset ranges",
    "a time span",
    "batches",
    "the quarantine",
    "all of the archive",
    "everything, into a new table",
    "discard quarantined records",
    "cancel a backfill",
)
HELP = {
    RANGES: "those below, one per line",
    TIMES: "by Kafka's own timestamps",
    BATCHES: "what batches of the current generation read",
    QUARANTINE: "pending records are judged again; the good ones are merged",
    ARCHIVE: "every record in it, also those that Kafka has deleted",
    NEW_TABLE: "every record that was ever applied; at the end the new table takes the target's place",
    DISCARD: "pending records are marked as not wanted; the quarantine keeps them",
    CANCEL: "no more chunks of it can land; what has landed stays",
}

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_SOURCES: dict[str, Source] = {QUARANTINE: "quarantine", ARCHIVE: "archive"}  # of the choices that name one


def request_of(form: JsonMapping) -> BackfillRequest:
    """The request that a person filled in. Fields that the choice does not use are ignored.

    Raises:
        TerminalError: a field that the choice uses is empty or not valid.
    """
    what = form["what"]
    if what == RANGES and not form["ranges"]:
        raise _wrong("Offset ranges", "at least one", "none")
    return BackfillRequest(
        ranges=[_read("Offset ranges", OffsetRange.parse, text) for text in form["ranges"] or ()]
        if what == RANGES
        else (),
        since=_read("From", moment, form["since"]) if what == TIMES and form["since"] else None,
        until=_read("To", moment, form["until"]) if what == TIMES and form["until"] else None,
        batches=_read("Batches", batch_ids, form["batches"] or "") if what == BATCHES else None,
        into="new" if what == NEW_TABLE else "same",
        source=_SOURCES[what] if what in _SOURCES else form["source"],
        rule=form.get("rule") if what == QUARANTINE else None,
        records_per_chunk_max=form["records_per_chunk"],
        deliver=deliver_of(form),
    )


def number_to_cancel(form: JsonMapping) -> int:
    """The backfill that a person wants to cancel. Raises TerminalError if none is given."""
    if form["backfill"] is None:
        raise _wrong("Backfill to cancel", "its number", "nothing")
    return form["backfill"]


def discarded_by(form: JsonMapping) -> tuple[Chosen, str]:
    """The pending records that a person gives up, and why. Raises TerminalError if no reason is given."""
    if not (form["reason"] or "").strip():
        raise _wrong("Reason", "why nobody needs these records", "nothing")
    ranges = [_read("Offset ranges", OffsetRange.parse, text) for text in form["ranges"] or ()]
    return Chosen(ranges, form.get("rule")), form["reason"].strip()


def batch_ids(text: str) -> tuple[int, int]:
    """Parses `A-B` or `A`, ids of batches, both inclusive. Raises ValueError, which says what is wrong."""
    first, dash, last = text.strip().partition("-")
    if not re.fullmatch(r"\d{1,18}(-\d{1,18})?", text.strip()):
        raise ValueError(f"expected A-B or A, ids of batches; found {text[:200]!r}")
    return int(first), int(last if dash else first)


def moment(text: str) -> datetime:
    """Parses ISO 8601, in UTC if the text names no offset. Raises ValueError, which says what is wrong."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"expected a time like 2026-11-20T08:00; found {text!r}") from error
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    if found < _FIRST:
        raise ValueError(f"expected a time from 1970 on, as Kafka counts; found {text!r}")
    return found


def _read(field: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text.strip())
    except ValueError as error:
        expected, _, _ = str(error).removeprefix("expected ").partition("; found ")
        raise _wrong(field, expected, repr(text)) from error


def _wrong(field: str, expected: str, found: str) -> TerminalError:
    return TerminalError(
        what="the form is not filled in correctly",
        where=f"field {field}",
        expected=expected,
        found=found,
        action="correct that field and try again; nothing was changed",
    )
