"""What readers of each participant must see. Knows the records that were sent, not how tables are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from tests.support.topics import Sent
from tests.support.world import PLACE, as_dict, as_states, newest_by_key, states_by_key


def good(sent: Iterable[Sent], pipeline: Pipeline) -> list[Sent]:
    """The records that are applied: a suite refuses those without a name."""
    is_judged = pipeline.quality.suite is not None
    return [r for r in sent if isinstance(r.value, dict) and (not is_judged or r.value["name"] is not None)]


def assert_table_is_right(
    participant: Participant, rows: Sequence[dict[str, Any]], sent: Sequence[Sent], pipeline: Pipeline
) -> None:
    found = good(sent, pipeline)
    match participant.role:
        case "archive" | "note":
            seen, right = _places(rows), _sent_places(sent)
        case "quarantine":
            seen, right = _places(rows), _sent_places(sent) - _sent_places(found)
        case "history":
            seen, right = as_states(rows), states_by_key(found)
        case "target" if pipeline.change.history == "scd2":
            seen, right = as_states(rows), states_by_key(found)
        case "target" | "route":
            mine = [r for r in found if _route_of(r, pipeline) == participant.route]
            seen, right = as_dict(rows), _newest(mine)
        case other:
            raise AssertionError(f"the oracle knows no {other}")
    assert seen == right, participant.name


def assert_delivered(rows: Sequence[dict[str, Any]], sent: Sequence[Sent], pipeline: Pipeline) -> None:
    """A sink has the rows that readers of the target see. Args: rows: of the sink."""
    found = good(sent, pipeline)
    if pipeline.change.history == "scd2":
        places = [{n: row[f"change_{n}"] for n in PLACE} for row in rows]
        as_there = [{**row, "_lakemark": place} for row, place in zip(rows, places, strict=True)]
        assert as_states(as_there) == states_by_key(found)
        return
    mine = [r for r in found if _route_of(r, pipeline) is None]
    assert {row["id"]: row for row in rows} == _newest(mine)
    assert len(rows) == len({row["id"] for row in rows})


def _places(rows: Iterable[dict[str, Any]]) -> set[tuple[str, int, int]]:
    return {(row["topic"], row["partition"], row["offset"]) for row in rows}


def _sent_places(sent: Iterable[Sent]) -> set[tuple[str, int, int]]:
    return {(r.topic, r.partition, r.offset) for r in sent}


def _newest(sent: Iterable[Sent]) -> dict[int, dict[str, Any]]:
    return {key: row for key, row in newest_by_key(sent).items() if row["op"] != "d"}


def _route_of(record: Sent, pipeline: Pipeline) -> int | None:
    """The place of the route that takes a change; None: it is for the target."""
    remainder = record.value["id"] % 3
    return remainder if remainder < len(pipeline.target.routes) else None
