"""The pipeline file's schema changes while the table has rows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import SchemaChanged, TerminalError
from tests.support.advice import advised, follow
from tests.support.world import World, as_dict, as_states, changes, newest_by_key, read_table, states_by_key


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
    # Rows that were read before the column was declared get it once they are read again.
    assert world.lakemark("backfill", pipeline.name, "--batches", "0").returncode == 0
    assert as_dict(world.rows(pipeline))[1]["more"] == {"x": 1}
    assert audit(world.settings, pipeline, deep=True).findings == ()

    fewer = declared(world, "id BIGINT, seq BIGINT, more STRUCT<x: INT>", pipeline)
    world.produce(pipeline.source.topics[0], [{"id": 3, "seq": 1}], 1)
    world.run_batch(fewer)
    rows = as_dict(world.rows(fewer))
    assert [rows[n]["name"] for n in (1, 2, 3)] == ["a", "a", None]


@pytest.mark.slow
def test_i9_patches_get_a_column_and_late_patches_still_find_their_place(world: World) -> None:
    pipeline = declared(world, "id BIGINT, seq BIGINT, name STRING", absent="keep")
    topic = pipeline.source.topics[0]
    world.produce(topic, [{"id": 1, "seq": 10, "name": "a"}, {"id": 1, "seq": 20}], 1)
    world.produce(topic, [{"id": 2, "seq": 20, "name": "b", "more": "x"}], 1)
    world.run_batch(pipeline)
    pipeline = declared(world, "id BIGINT, seq BIGINT, name STRING, more STRING, last STRING", pipeline, absent="keep")
    late = [
        {"id": 1, "seq": 15, "name": "c", "more": "m"},  # newer than what set the name, older than the row
        {"id": 1, "seq": 12, "name": "never", "more": "never"},
        {"id": 2, "seq": 5, "name": "never", "last": "l"},
        {"id": 3, "seq": 1, "more": "n"},
    ]
    for patch in late:
        world.produce(topic, [patch], 1)
    world.run_batch(pipeline)
    expected = {
        1: {"id": 1, "seq": 20, "name": "c", "more": "m", "last": None},
        2: {"id": 2, "seq": 20, "name": "b", "more": None, "last": "l"},
        3: {"id": 3, "seq": 1, "name": None, "more": "n", "last": None},
    }
    assert as_dict(world.rows(pipeline)) == expected
    assert world.counts(pipeline).applied == 3
    world.produce(topic, [{"id": 2, "seq": 4, "more": "old", "last": "never"}], 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline))[2]["more"] == "old"  # nothing that was read says more
    assert world.lakemark("backfill", pipeline.name, "--batches", "0").returncode == 0
    expected[2]["more"] = "x"
    assert as_dict(world.rows(pipeline)) == expected
    assert audit(world.settings, pipeline, deep=True).findings == ()

    # Whole rows from now on, and then patches again: the registers have been kept.
    world.produce(topic, [{"id": 1, "seq": 30, "name": "w", "more": "w"}], 1)
    world.run_batch(declared(world, "id BIGINT, seq BIGINT, name STRING, more STRING", pipeline))
    for patch in ({"id": 1, "seq": 25, "more": "never", "last": "q"}, {"id": 1, "seq": 40, "name": "z"}):
        world.produce(topic, [patch], 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline))[1] == {"id": 1, "seq": 40, "name": "z", "more": "w", "last": "q"}
    other_order = declared(
        world, "id BIGINT, seq BIGINT, name STRING, more STRING", pipeline, absent="keep", order_by=["name"]
    )
    world.produce(topic, [{"id": 1, "seq": 50, "name": "a"}], 1)
    with pytest.raises(SchemaChanged, match=r"change\.order_by"):
        world.run_batch(other_order)


@pytest.mark.parametrize("history", [{}, {"history": "scd2", "valid_from": "at"}])
def test_i9_a_batch_that_alters_its_table_lands_by_the_lane(world: World, history: dict[str, str]) -> None:
    """Rows get fields for each of their columns, between the choice of the lane and its commit."""
    schema = "id BIGINT, seq BIGINT, name STRING, note STRING, at TIMESTAMP"
    topic, name = world.topic(partitions=1), f"p_{uuid.uuid4().hex[:8]}"

    def pipeline(**change: str) -> Pipeline:
        settings = {"order_by": ["seq"], **history, **change}
        return world.pipeline(topic, name, source={"schema": schema}, change=settings)

    def batch(by: Pipeline, **record: Any) -> None:
        record["at"] = f"2026-01-0{record['seq']}T00:00:00Z"
        world.produce(topic, [record], 1)
        world.run_batch(by)

    batch(pipeline(), id=1, seq=1, name="a", note="x")
    batch(pipeline(), id=1, seq=2, name="b", note="y")
    batch(pipeline(absent="keep"), id=1, seq=3, name="c")
    batch(pipeline(absent="keep"), id=2, seq=4, note="z")
    found = {(row["id"], row["seq"]): (row["name"], row["note"]) for row in world.rows(pipeline())}
    newest = {(1, 3): ("c", "y"), (2, 4): (None, "z")}
    assert found == (newest if not history else {(1, 1): ("a", "x"), (1, 2): ("b", "y"), **newest})
    with world.session() as spark:
        said = spark.sql(f"DESCRIBE HISTORY delta.`{world.coordinator(pipeline()).tables.target}`").collect()
    assert [row["engineInfo"] for row in said if row["operation"] == "MERGE"][:3] == ["lakemark"] * 3


def test_i9_debezium_gets_a_column_with_and_without_history(world: World) -> None:
    unavailable = "__debezium_unavailable_value"

    def pipeline(schema: str, again: Pipeline | None = None) -> Pipeline:
        topic, name = (again.source.topics[0], again.name) if again else (world.topic(1), f"d_{uuid.uuid4().hex[:8]}")
        return world.pipeline(
            topic,
            name,
            source={"format": "debezium-json", "schema": schema},
            change={"order_by": ["source.lsn"]},
            target={"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"},
        )

    def event(lsn: int, **row: Any) -> dict[str, Any]:
        return {"op": "c", "before": None, "after": row, "source": {"lsn": lsn}}

    first = pipeline("id BIGINT, name STRING")
    topic = first.source.topics[0]
    world.produce(topic, [event(10, id=1, name="a", note="n"), event(20, id=1, name=unavailable, note=unavailable)], 1)
    world.run_batch(first)
    second = pipeline("id BIGINT, name STRING, note STRING, size INT", first)
    world.produce(topic, [event(30, id=1, name=unavailable, note=unavailable, size=3)], 1)
    world.produce(topic, [event(15, id=1, name="b", note="m", size=1)], 1)
    world.run_batch(second)

    def assert_row(**row: Any) -> None:
        shown = {name: row[name] for name in ("id", "name", "note", "size")}
        assert as_dict(world.rows(second)) == {1: shown}
        [now] = [r for r in read_table(f"{world.settings.lake}/silver/{second.name}_history") if r["is_current"]]
        assert {name: now[name] for name in shown} == shown

    assert_row(id=1, name="b", note="m", size=3)
    world.produce(topic, [event(25, id=1, name="c", note=unavailable, size=2)], 1)
    world.run_batch(second)
    assert_row(id=1, name="c", note="m", size=3)
    assert world.lakemark("backfill", second.name, "--batches", "0").returncode == 0
    assert_row(id=1, name="c", note="m", size=3)
    assert audit(world.settings, second, deep=True).findings == ()


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
    with pytest.raises(SchemaChanged, match=r"change\.order_by.*seq; found.*seq, kafka\.timestamp"):
        world.run_batch(other_order)
    assert world.version(pipeline) == version
    world.run_batch(declared(world, schema, pipeline))
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]


def test_i5_a_target_that_forgets_markers_gets_no_batch(world: World) -> None:
    pipeline, forgets = declared(world, "id BIGINT, seq BIGINT, name STRING"), "delta.setTransactionRetentionDuration"
    table = f"delta.`{world.coordinator(pipeline).tables.target}`"
    for n in (1, 2):
        world.produce(pipeline.source.topics[0], [{"id": n, "seq": 1, "name": "a"}], 1)
        if n == 2:
            with world.session() as spark:
                spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{forgets}' = 'interval 1 days')").collect()
            with pytest.raises(TerminalError, match=rf"UNSET TBLPROPERTIES \('{forgets}'\)"):
                world.run_batch(pipeline)
            with world.session() as spark:
                spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{forgets}')").collect()
        world.run_batch(pipeline)
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["quarantine", "history"])
def test_a_changed_type_beside_another_table_leads_out_by_what_the_errors_say(world: World, beside: str) -> None:
    """The batch that meets the change has landed in the quarantine already, and waits there for the new table."""
    topic = world.topic(partitions=1)
    target = {"history_table": f"lake://silver/{topic}_history"} if beside == "history" else {}
    pipeline = world.pipeline(topic, target=target)
    world.produce(topic, [*changes(range(3), 1), b"{"], 1)
    world.run_batch(pipeline)
    pipeline = world.pipeline(topic, pipeline.name, target=target, change={"order_by": ["seq", "name"]})
    world.produce(topic, changes(range(3), 5), 1)
    if beside == "history":
        into_new_table, reset = advised(refused(world, pipeline).action, pipeline)
        typed(world, into_new_table)
        history = world.on_disk(world.table(pipeline, "history"))
        history.rename(f"{history}_away")
        typed(world, reset)
    else:
        [into_new_table] = advised(refused(world, pipeline).action, pipeline)
        typed(world, into_new_table)
    assert follow(world, pipeline) == []
    good = [record for record in world.sent if isinstance(record.value, dict)]
    assert as_dict(world.rows(pipeline)) == newest_by_key(good)
    if beside == "history":
        assert as_states(read_table(world.table(pipeline, "history"))) == states_by_key(good)


@pytest.mark.slow
def test_another_spelling_of_a_column_leads_out_by_what_the_error_says(world: World) -> None:
    pipeline = declared(world, "id BIGINT, seq BIGINT, Name STRING", absent="keep")
    world.produce(pipeline.source.topics[0], [{"id": 1, "seq": 1, "Name": "a", "name": "b"}], 1)
    world.run_batch(pipeline)
    pipeline = declared(world, "id BIGINT, seq BIGINT, name STRING", pipeline, absent="keep")
    world.produce(pipeline.source.topics[0], [{"id": 2, "seq": 1, "name": "c"}], 1)
    [into_new_table] = advised(refused(world, pipeline).action, pipeline)
    typed(world, into_new_table)
    assert follow(world, pipeline) == []
    assert {n: row["name"] for n, row in as_dict(world.rows(pipeline)).items()} == {1: "b", 2: "c"}


def refused(world: World, pipeline: Pipeline) -> SchemaChanged:
    with pytest.raises(SchemaChanged) as failure:
        world.run_batch(pipeline)
    return failure.value


def typed(world: World, command: list[str]) -> None:
    done = world.lakemark(*command)
    assert done.returncode == 0, done.stderr
