"""Makes the file of a pipeline that begins with a savepoint from the file that the savepoint has kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from yaml import YAMLError

from include.pipeline_file import Pipeline
from include.pipeline_file.yaml_text import read_yaml
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonMapping


def renamed(text: str, old: str, new: str) -> str:
    """A pipeline file under another name, with tables of its own. All else stays as it is written.

    Args:
        text: the file. old: the pipeline's name in it. new: the other one.

    Raises:
        TerminalError: its name or a table stands there in a way that cannot be exchanged.
    """
    return exchanged(text, old, new, {table: _other(table, old, new) for table in _tables(_data(text))})


def exchanged(text: str, old: str, new: str, tables: Mapping[str, str]) -> str:
    """The same, where the caller says what the tables are called. Args: tables: the new names by the old ones; all."""
    changed, names = re.subn(rf"(?m)^name:[ \t]*([\"']?){old}\1(?=[ \t]*(#.*)?$)", f"name: {new}", text)
    for table, other in tables.items():
        changed = re.sub(rf"{re.escape(table)}(?![A-Za-z0-9_\-./])", other, changed)
    found = _data(changed)
    if names != 1 or found.get("name") != new or {*_tables(found)} != {*tables.values()}:
        raise TerminalError(
            what="the new pipeline's file cannot be made from the savepoint's",
            where=f"the file of {old}",
            expected=f"a line `name: {old}`, and tables as plain texts",
            found="another form",
            action=f"write {new}.yaml yourself, with a name and tables of its own, and run the same again",
        )
    return changed


def with_section(text: str, name: str, of: str, where: str) -> str:
    """A pipeline file with a section as another file has it, or without it. All else stays as it is written.

    Args:
        text: the file. name: the section's. of: the other file. where: for errors.

    Raises:
        TerminalError: the section stands there in a way that cannot be exchanged.
    """
    section = re.compile(rf"(?m)^{name}[ \t]*:.*\n?(?:(?:[ \t].*|[ \t]*)\n)*(?:[ \t].*\Z)?")
    found = section.search(of)
    changed = section.sub("", text).rstrip() + "\n" + (found[0] if found else "")
    mine, before = _data(of), _data(text)
    try:
        then = _data(changed)
    except YAMLError:
        then = {}
    if then != {key: value for key, value in {**before, name: mine.get(name)}.items() if value is not None}:
        raise TerminalError(
            what=f"the section `{name}` of a pipeline file cannot be exchanged",
            where=where,
            expected=f"a line `{name}:`, and the section's lines under it, indented",
            found="another form",
            action="write both sections so, and run the same again; or without --write-file, once you have written the "
            "file yourself",
        )
    return changed


def _data(text: str) -> JsonMapping:
    return dict(read_yaml(text))  # type: ignore[call-overload]  # the file was valid when it was saved


def tables_of(pipeline: Pipeline) -> list[str]:
    """The tables that a pipeline file names as its own, as paths in the lake."""
    target = pipeline.target
    found = [target.table, target.history_table, pipeline.archive, *(route.table for route in target.routes)]
    return [table.removeprefix("lake://") for table in found if table is not None]


def _tables(data: JsonMapping) -> Iterator[str]:
    """The tables that a pipeline writes, as its file names them."""
    target = data.get("target") or {}
    found = [target.get("table"), target.get("history_table"), data.get("archive")]
    found += [route.get("table") for route in target.get("routes") or ()]
    yield from (table for table in found if table is not None)


def _other(table: str, old: str, new: str) -> str:
    layer, separator, last = table.rpartition("/")
    return f"{layer}{separator}{last.replace(old, new, 1) if old in last else f'{last}_{new}'}"
