"""The transform: SQL and Python between decoding and merging, with reference tables of a pinned version."""

from __future__ import annotations

import shutil
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import table_uri
from include.protocol.errors import TableDamaged, TerminalError
from include.settings import PROJECT_ROOT
from tests.support.advice import advised
from tests.support.readers import options_of
from tests.support.world import World, as_dict, changes

_SCHEMA = "id BIGINT, seq BIGINT, name STRING, op STRING"


def transformed(world: World, topic: str, name: str, file: str, text: str, **sections: Any) -> Pipeline:
    world.settings.transforms.mkdir(exist_ok=True)
    (world.settings.transforms / file).write_text(text)
    return world.pipeline(topic, name, **{"transform": {"file": file, "schema": _SCHEMA}, **sections})


def prices(world: World, **price: str) -> None:
    rows = {"article": list(price), "price": [Decimal(text) for text in price.values()]}
    uri = table_uri(world.settings, "lake://silver/prices")
    write_deltalake(
        str(uri),
        pa.table(rows, pa.schema({"article": pa.string(), "price": pa.decimal128(9, 2)})),
        mode="overwrite",
        storage_options=options_of(uri),
    )


def test_the_example_and_a_rerun_of_it_with_the_version_that_was_pinned(world: World) -> None:
    examples = PROJECT_ROOT / "include" / "pipelines" / "examples"
    (world.settings.pipelines / "order_lines.yaml").write_text((examples / "order_lines.yaml").read_text())
    world.settings.transforms.mkdir()
    sql = (PROJECT_ROOT / "include" / "transforms" / "order_lines.sql").read_text()
    (world.settings.transforms / "order_lines.sql").write_text(sql)
    pipeline = world.load("order_lines")
    world.create_topic("orders-with-items", 1)
    with pytest.raises(TerminalError, match=r"a reference table of the transform does not exist"):
        world.coordinator(pipeline).plan()
    prices(world, lamp="10.00", plug="2.50")

    def order(id_: int, day: int, **items: int) -> dict[str, Any]:
        lines = [{"article": article, "pieces": pieces} for article, pieces in items.items()]
        return {"id": id_, "changed_at": f"2026-01-{day:02}T00:00:00Z", "items": lines}

    world.produce(
        "orders-with-items",
        [order(1, 1, lamp=2, plug=4), order(2, 1, desk=1), order(3, 1), order(1, 2, lamp=3), b"{"],
        1,
    )
    world.coordinator(pipeline).plan()  # pins the prices
    prices(world, lamp="99.00", plug="99.00", desk="99.00")
    world.run_batch(pipeline)
    rows = {(row["order_id"], row["article"]): (row["pieces"], row["amount"]) for row in world.rows(pipeline)}
    assert rows == {(1, "lamp"): (3, Decimal("30.00")), (1, "plug"): (4, Decimal("10.00"))}
    counts = world.counts(pipeline)
    assert (counts.read, counts.added, counts.applied, counts.superseded) == (5, 1, 2, 1)
    assert (counts.filtered, counts.quarantined) == (2, 1)  # no line with a price; no line at all
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_i1_a_reference_table_that_was_made_anew_is_told(world: World) -> None:
    """Else two attempts at a batch would make different rows."""
    topic = world.topic(partitions=1)
    sql = "SELECT c.id, c.seq, r.text AS name, c.op, c._lakemark FROM changes c JOIN names r ON c.name = r.name"
    references = {"names": "lake://silver/names"}
    transform = {"file": "named.sql", "schema": _SCHEMA, "references": references}
    pipeline = transformed(world, topic, "named", "named.sql", sql, transform=transform)
    place = str(table_uri(world.settings, "lake://silver/names"))
    write_deltalake(place, pa.table({"name": ["n1"], "text": ["first"]}), storage_options=options_of(place))
    world.produce(topic, changes(range(1, 2), 1), 1)
    world.coordinator(pipeline).plan()
    shutil.rmtree(world.on_disk(place))
    write_deltalake(place, pa.table({"name": ["n1"], "text": ["other"]}), storage_options=options_of(place))
    with pytest.raises(TableDamaged, match="not as it was when the batch was planned") as failure:
        world.run_batch(pipeline)
    [command] = advised(failure.value.action, pipeline)
    assert world.lakemark(*command).returncode == 0
    world.run_batch(pipeline)
    assert [row["name"] for row in world.rows(pipeline)] == ["other"]
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_python_filters_derives_and_leaves_deletes_alone(world: World) -> None:
    topic = world.topic(partitions=1)
    code = """
from pyspark.sql import functions as F

def transform(changes, references):
    return changes.where("seq <> 99").withColumn("name", F.upper("name"))
"""
    pipeline = transformed(world, topic, "in_python", "shout.py", code, change={"delete_when": "op = 'd'"})
    gone = changes(range(1), 4, op="d")
    world.produce(topic, [*changes(range(3), 1), *changes(range(1, 2), 99), *gone], 1)
    world.run_batch(pipeline)
    assert {row["name"] for row in as_dict(world.rows(pipeline)).values()} == {"N1", "N2"}
    assert world.counts(pipeline).filtered == 1
    assert audit(world.settings, pipeline, deep=True).findings == ()


def test_i9_a_transforms_keys_are_exactly_what_they_are_declared_to_be(world: World) -> None:
    """The keys that it makes, those of deletes that bypass it, and those of records that it never sees."""
    topic = world.topic(partitions=1)
    sql = "SELECT try_cast(id AS DECIMAL(10, 2)) AS id, seq, name, op, _lakemark FROM changes"
    source = {
        "schema": "id STRING, seq BIGINT, name STRING, op STRING",
        "key": "json",
        "filter": "id RLIKE '^[0-9.]+$'",
    }
    schema = "id DECIMAL(10, 0), seq BIGINT, name STRING, op STRING"
    transform = {"file": "whole.sql", "schema": schema}
    change = {"order_by": [], "tombstones": "delete"}
    pipeline = transformed(world, topic, "whole", "whole.sql", sql, source=source, transform=transform, change=change)
    values = [{"id": id_, "seq": 1, "name": id_, "op": "u"} for id_ in ("1", "1.4", "0.9", "2", "abc")]
    keys = [b"{}"] * len(values) + [b'{"id": "1.4"}', b'{"id": "2"}']
    world.produce(topic, [*values, None, None], 1, keys=keys)
    world.run_batch(pipeline)
    assert [row["name"] for row in world.rows(pipeline) if not row["_lakemark"]["deleted"]] == ["1"]
    aside = {row["offset"]: row["reason"] for row in world.quarantine(pipeline)}
    assert aside == dict.fromkeys((1, 2, 5), "null in a key column (id)")


def test_what_the_filter_leaves_out_is_not_asked_for_what_the_transform_makes(world: World) -> None:
    topic = world.topic(partitions=1)
    source = {"schema": _SCHEMA, "filter": "name <> 'x'"}
    sql = "SELECT id, seq, name, op, _lakemark FROM changes"
    pipeline = transformed(world, topic, "left_out", "same.sql", sql, source=source, change={"order_by": ["seq"]})
    world.produce(topic, [{"id": n, "seq": 1, "name": name, "op": "u"} for n, name in enumerate("xyx")], 1)
    world.run_batch(pipeline)
    assert [row["id"] for row in world.rows(pipeline)] == [1]
    assert world.quarantine(pipeline) == []


def test_a_record_of_several_rows_is_set_aside_as_one(world: World) -> None:
    topic = world.topic(partitions=1)
    sql = "SELECT id + n AS id, seq, IF(n = 10, NULL, name) AS name, op, _lakemark FROM changes " + (
        "LATERAL VIEW explode(IF(seq = 1, array(0), array(20, 10, 30))) AS n"
    )
    world.write_suite("named", [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    pipeline = transformed(world, topic, "several", "several.sql", sql, quality={"suite": "named"})
    world.produce(topic, [*changes(range(2), 1), *changes(range(1), 2)], 1)
    world.run_batch(pipeline)
    assert set(as_dict(world.rows(pipeline))) == {0, 1}
    [aside] = world.quarantine(pipeline)
    assert aside["reason"] == "breaks column_values_to_not_be_null(name)"
    counts = world.counts(pipeline)
    assert (counts.read, counts.added, counts.applied, counts.quarantined) == (3, 0, 2, 1)


@pytest.mark.parametrize(
    ("file", "text", "where", "found"),
    [
        ("bad.sql", "SELECT id, seq,\n  nam, op, _lakemark\nFROM changes", r"bad.sql, line 2", "nam"),
        ("bad.sql", "SELECT id,\n(FROM changes", r"bad.sql, line 2", "PARSE_SYNTAX_ERROR"),
        ("bad.sql", "SELECT id, seq, name, op FROM changes", "bad.sql", "id, seq, name, op"),
        ("bad.sql", "SELECT id, seq, name,\n string(1 / (seq - seq)) AS op, _lakemark\nFROM changes", "line 2", "ZERO"),
        ("bad.py", "def transform(changes, references):\n    x = 1\n    return changes.select('nix')", "line 3", "nix"),
        ("bad.py", "def transform(changes, references):\n    raise ValueError('no')", "bad.py, line 2", "no"),
        ("bad.py", "def other(): ...", "bad.py", "none of that name"),
    ],
)
def test_its_errors_name_pipeline_file_and_line(world: World, file: str, text: str, where: str, found: str) -> None:
    topic = world.topic(partitions=1)
    pipeline = transformed(world, topic, "wrong", file, text)
    world.produce(topic, changes(range(2), 1), 1)
    with pytest.raises(TerminalError) as raised:
        world.run_batch(pipeline)
    assert raised.value.where.startswith("wrong, ")
    assert where in raised.value.where, raised.value
    assert found in raised.value.found, raised.value
