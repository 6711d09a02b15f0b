"""A look at a table: what differs between two versions, by key, whatever the columns are called. Real Delta files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.monitoring import data_look
from include.monitoring.data_look import Versions, columns_of, compare, newest
from include.pipeline_file import Pipeline
from include.settings import Settings
from tests.conftest import settings_in

NAMES = ["id", "a", "B", "_id", "whole", "of", "kind", "order"]


def table_of(rows: list[dict[str, Any]], batch: int) -> pa.Table:
    lineage = {"generation": 1, "batch_id": batch, "topic": "t", "partition": 0, "offset": 7}
    told = [
        {**{name: row.get(name, 0) for name in NAMES}, "_lakemark": {**lineage, "deleted": row.get("deleted", False)}}
        for row in rows
    ]
    return pa.Table.from_pylist(told)


@pytest.fixture
def looked_at(tmp_path: Path) -> tuple[Settings, Pipeline]:
    """Version 0: ids 1, 2, 3. Version 1: 2 is another, 3 is deleted, 4 is new, and 1 was copied."""
    schema = ", ".join(f"`{name}` BIGINT" for name in NAMES)
    source = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": schema}
    data = {"name": "p", "source": source, "change": {"keys": ["id"]}, "target": {"table": "lake://silver/p"}}
    settings = settings_in(tmp_path)
    place = str(settings.lake / "silver/p")
    write_deltalake(place, table_of([{"id": n} for n in (1, 2, 3)], batch=0))
    changed = [{"id": 1}, {"id": 2, "B": 5}, {"id": 3, "deleted": True}, {"id": 4}]
    write_deltalake(place, table_of(changed, batch=1), mode="overwrite")
    return settings, Pipeline.model_validate(data)


def test_what_differs_is_counted_by_key_and_shown(looked_at: tuple[Settings, Pipeline]) -> None:
    found = compare(*looked_at, Versions(0, 1), rows=10)
    assert (found["inserted"], found["updated"], found["deleted"], found["columns"]) == (1, 1, 1, NAMES)
    inserted, updated, deleted = found["examples"]
    assert (inserted["kind"], inserted["before"], inserted["after"][0]) == ("inserted", None, "4")
    assert (updated["before"][2], updated["after"][2]) == ("0", "5")
    assert (deleted["kind"], deleted["before"][0], deleted["after"]) == ("deleted", "3", None)
    back = compare(*looked_at, Versions(1, 0), rows=0)
    assert (back["inserted"], back["updated"], back["deleted"], back["examples"]) == (1, 1, 1, [])
    assert compare(*looked_at, Versions(1, 1), rows=10)["inserted"] == 0


def test_the_newest_rows_say_where_they_are_from(looked_at: tuple[Settings, Pipeline]) -> None:
    found = newest(*looked_at, rows=3)
    assert (found["version"], found["columns"], len(found["rows"])) == (1, NAMES, 3)
    assert found["rows"][0]["place"]["batch_id"] == 1
    assert [column["is_key"] for column in columns_of(*looked_at)["columns"]] == [True] + [False] * 7


def test_a_long_value_is_cut(looked_at: tuple[Settings, Pipeline], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_look, "_TEXT_MAX", 1)
    place = str(looked_at[0].lake / "silver/p")
    write_deltalake(place, table_of([{"id": 123}], batch=2), mode="append")
    assert newest(*looked_at, rows=1)["rows"][0]["values"][0] == "1"
