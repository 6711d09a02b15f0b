"""The sinks of the soak's pipelines, and what each shows to its readers: one of each kind, both ways to deliver."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.sink_servers import PostgresServer
from tests.support.sink_topics import Topic

Rows = dict[int, dict[str, Any]]  # by id


@dataclass(frozen=True)
class Outlet:
    """A sink.

    Args:
        section: of the pipeline file. held: what its readers see. keeps: rows that a snapshot does not remove: nobody
            knows their keys.
    """

    section: dict[str, Any]
    held: Callable[[], Rows] = field(repr=False)
    keeps: bool = False


def outlets_of(number: int, name: str, folder: Path, servers: str, postgres: PostgresServer) -> dict[str, Outlet]:
    """The sinks of one pipeline, by name.

    Args:
        number: of the pipeline. name: its name. folder: for files. servers: the broker's.
    """
    match number:
        case 0:
            out = folder / f"{name}-out"
            return {"out": Outlet({"files": {"path": str(out), "format": "json"}}, lambda: _in_files(out))}
        case 1 | 2:
            place = {"postgresql": {**postgres.address, "table": name}}
            more = {"mode": "two_phase"} if number == 2 else {}
            return {"app": Outlet({**place, **more}, lambda: _in_table(postgres, name))}
        case 3:
            topic = Topic(servers, f"{name}-out")
            place = {"kafka": {"bootstrap_servers": servers, "topic": topic.name, "transaction_seconds": 60}}
            of_route = {"postgresql": {**postgres.address, "table": f"{name}_b"}}
            of_route |= {"what": "route", "route": f"lake://silver/{name}_b"}
            return {
                "onward": Outlet(place, lambda: _in_topic(topic), keeps=True),
                "routed": Outlet(
                    {**of_route, "route": f"lake://silver/{name}_b"}, lambda: _in_table(postgres, f"{name}_b")
                ),
            }
    return {}


def _in_files(out: Path) -> Rows:
    found: Rows = {}
    for manifest in sorted((out / "manifests").iterdir()) if out.exists() else ():
        told = json.loads(manifest.read_text())
        found = {} if told["is_snapshot"] else found
        for part in told["files"]:
            for line in (out / part["path"]).read_text().splitlines():
                row = json.loads(line)
                op = row.pop("lakemark_op")
                found.pop(row["id"], None)
                if op != "delete":
                    found[row["id"]] = row
    return found


def _in_table(postgres: PostgresServer, name: str) -> Rows:
    return {row["id"]: row for (row,) in postgres.rows(f"SELECT row_to_json(t) FROM {name} t")}


def _in_topic(topic: Topic) -> Rows:
    newest = {record.key: record.value for record in topic.read()}
    return {row["id"]: row for row in newest.values() if row is not None}
