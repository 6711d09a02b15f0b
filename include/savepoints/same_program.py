"""Says whether two pipelines do the same, apart from their names and the places of their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.pipeline_file import Pipeline
from include.pipeline_file.transform_file import read_transform
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping, JsonValue
from include.settings import Settings

_SAID_APART = {
    *("name", "schedule", "group", "tasks", "stale_after_minutes", "maintenance", "checkpoints", "archive", "sinks")
}
_PLACES = re.compile(r"target\.(table|history_table|routes\[\d+\]\.table)")


def counterparts(one: Pipeline, other: Pipeline) -> list[tuple[Participant, Participant]]:
    """The tables of two pipelines that play the same part. A route is known by what it takes."""
    ours, theirs = _parts(one), _parts(other)
    return [(mine, theirs[part]) for part, mine in ours.items() if part in theirs]


def differing(settings: Settings, one: Pipeline, other: Pipeline) -> list[str]:
    """The fields of the pipeline file that say another thing, and tables that only one has."""
    found = differing_fields(one, other)
    texts = [None if p.transform is None else read_transform(settings, p) for p in (one, other)]
    if texts[0] != texts[1]:
        found.append("the text of the transform")
    return found


def differing_fields(one: Pipeline, other: Pipeline) -> list[str]:
    """The same, but for the text of the transform."""
    tables = sorted(_parts(one).keys() ^ _parts(other).keys())
    return [*_fields(_said(one), _said(other)), *(f"table {name}" for name in tables)]


def verify_same_program(settings: Settings, new: Pipeline, over: Pipeline) -> None:
    """Checks that a pipeline will go on as the one does whose rows it gets.

    Raises:
        TerminalError: it would not. TransformError: a transform cannot be read.
    """
    if new.name == over.name or any(one.merge_every is not None or one.is_landing for one in (new, over)):
        raise TerminalError(
            what="one of these cannot take the other one's place",
            where=f"{new.name} over {over.name}",
            expected="two pipelines without merge_every",
            found="the same pipeline" if new.name == over.name else "a pipeline of two halves, or a half",
            action="name a clone and the pipeline whose place it takes; nothing was changed",
        )
    if found := differing(settings, over, new):
        raise TerminalError(
            what="the two pipelines do not do the same, so the next batch would go on in another way",
            where=f"the files {over.name}.yaml and {new.name}.yaml",
            expected="the same but for the name, the tables' places, the schedule, sinks, checkpoints and maintenance",
            found=f"other: {', '.join(found)}",
            action=f"pause {over.name}, let its file say what {new.name}'s says, and run the same again; or let this "
            "command write it: --write-file",
        )


def _parts(pipeline: Pipeline) -> dict[str, Participant]:
    """Its tables, by the part that each plays."""
    found: dict[str, Participant] = {}
    for participant in Catalog.of(pipeline).participants:
        part = participant.name
        if participant.route is not None:
            route = pipeline.target.routes[participant.route]
            part = f"route {route.when or ', '.join(route.topics)}"
        while part in found:  # two routes may take the same
            part += " once more"
        found[part] = participant
    return found


def _said(pipeline: Pipeline) -> JsonMapping:
    return pipeline.model_dump(mode="json", exclude=_SAID_APART)


def _fields(one: JsonValue, other: JsonValue, path: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from _fields(one.get(name), other.get(name), f"{path}.{name}".strip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _fields(mine, theirs, f"{path}[{number}]")
    elif one != other and not _PLACES.fullmatch(path):
        yield path
