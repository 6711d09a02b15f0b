"""The pipeline file's schema changes while the table has rows."""

from __future__ import annotations

from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import SchemaChanged
from tests.support.world import World, as_dict


def declared(world: World, schema: str, again: Pipeline | None = None, **change: Any) -> Pipeline:
    topic, name = (again.source.topics[0], again.name) if again else (world.topic(1), None)
    return world.pipeline(topic, name, source={"schema": schema}, change={"order_by": ["seq"], **change})


@pytest.mark.slow
def test_a_declared_column_is_added_and_what_is_no_longer_declared_stays(world: World) -> None:
    pipeline = declared(world, "id BIGINT, seq BIGINT, name STRING")
    records = [{"id": 1, "seq": 1, "name": "a", "at": "2026-01-01T00:00:00Z", "more": {"x": 1}}]
    world.produce(pipeline.source.topics[0], records, 1)
    world.run_batch(pipeline)
    with_more = "id BIGINT, seq BIGINT, name STRING, more STRUCT<x: INT>"
    pipeline = declared(world, with_more, pipeline)
    world.produce(pipeline.source.topics[0], [{**records[0], "id": 2}], 1)
    world.run_batch(pipeline)
    rows = as_dict(world.rows(pipeline))
    assert (rows[1]["more"], rows[2]["more"]) == (None, {"x": 1})
    # What was read before the column was declared has it once it is read again.
    assert world.lakemark("backfill", pipeline.name, "--batches", "0").returncode == 0
    assert as_dict(world.rows(pipeline))[1]["more"] == {"x": 1}
    assert audit(world.settings, pipeline, deep=True).findings == ()

    fewer = declared(world, "id BIGINT, seq BIGINT, more STRUCT<x: INT>", pipeline)
    world.produce(pipeline.source.topics[0], [{"id": 3, "seq": 1}], 1)
    world.run_batch(fewer)
    rows = as_dict(world.rows(fewer))
    assert [rows[n]["name"] for n in (1, 2, 3)] == ["a", "a", None]


def test_another_type_or_order_lands_nothing_and_says_what_to_do(world: World) -> None:
    schema = "id BIGINT, seq BIGINT, name STRING"
    pipeline = declared(world, schema)
    world.produce(pipeline.source.topics[0], [{"id": 1, "seq": 1, "name": "a"}], 1)
    world.run_batch(pipeline)
    version = world.version(pipeline)
    world.produce(pipeline.source.topics[0], [{"id": 2, "seq": 1, "name": "b"}], 1)
    narrower = declared(world, "id INT, seq BIGINT, name STRING", pipeline)
    with pytest.raises(SchemaChanged, match=r"column id.*BIGINT.*INT"):
        world.run_batch(narrower)
    other_order = declared(world, schema, pipeline, order_by=["seq", "kafka.timestamp"])
    with pytest.raises(SchemaChanged, match=r"_lakemark.*kafka\.timestamp"):
        world.run_batch(other_order)
    assert world.version(pipeline) == version
    world.run_batch(declared(world, schema, pipeline))
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]
