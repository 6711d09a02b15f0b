"""Names in Avro schemas mean what the specification says ("Names"), whatever else is called the same."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from include.sources.avro_schema import AvroField, AvroSchema
from tests.hostile.avro_schemas import logical


def named(name: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()], **more}


def field(schema: AvroSchema, *path: str) -> AvroField:
    found, *further = (schema.fields[path[0]], *path[1:])
    for name in further:
        found = found.fields[name]
    return found


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
OF_A = named("Money", {"amount": "long", "at": MILLIS}, namespace="a")
OF_B = named("Money", {"cents": "long", "cur": "string", "at": MICROS}, namespace="b")


def test_a_short_name_is_of_the_namespace_around_it() -> None:
    within = named("Box", {"first": OF_B, "again": "Money", "other": "a.Money", "listed": [OF_A["name"], "null"]})
    schema = AvroSchema(
        json.dumps(named("Row", {"m": OF_A, "box": {**within, "namespace": "b"}, "x": "Money"}, namespace="a"))
    )
    assert list(field(schema, "box", "again").fields) == ["cents", "cur", "at"]
    assert list(field(schema, "box", "listed").fields) == ["cents", "cur", "at"]
    assert field(schema, "box", "again", "at").kind == "timestamp-micros"
    assert list(field(schema, "box", "other").fields) == list(field(schema, "x").fields) == ["amount", "at"]


@pytest.mark.parametrize(
    ("name", "more"), [("b.Money", {}), ("b.Money", {"namespace": "a"}), ("Money", {"namespace": "b"}), ("Money", {})]
)
def test_a_name_is_full_by_its_dots_or_its_namespace_or_the_one_around(name: str, more: dict[str, str]) -> None:
    inner = named(name, {"cents": "long", "next": ["null", "Money"]}, **more)
    schema = AvroSchema(json.dumps(named("b.Row", {"a": OF_A, "m": inner, "x": "Money", "y": {"type": "b.Money"}})))
    for at in (["m"], ["x"], ["y"], ["m", "next"]):
        assert list(field(schema, *at).fields) == ["cents", "next"], at


def test_a_name_without_a_namespace_is_none_of_the_namespace_around_it() -> None:
    bare = named("At", {"n": "int"}, namespace="")
    inner = named("N", {"at": bare, "again": "At"}, namespace="")
    schema = AvroSchema(json.dumps(named("b.Row", {"of_b": named("At", {"t": MICROS}), "n": inner, "x": "At"})))
    assert list(field(schema, "n", "again").fields) == ["n"]
    assert list(field(schema, "x").fields) == ["t"]
    # A type that only the empty namespace has is found from everywhere, as Java's parser finds it.
    schema = AvroSchema(json.dumps(named("Row", {"at": bare, "box": named("b.Box", {"x": "At"})})))
    assert list(field(schema, "box", "x").fields) == ["n"]


def test_of_referred_schemas_each_has_its_own_namespace() -> None:
    box = named("Box", {"m": "Money", "other": "a.Money"}, namespace="b")
    root = named("Row", {"m": "Money", "box": "b.Box", "again": "Money", "of_b": "b.Money"}, namespace="a")
    schema = AvroSchema.of(json.dumps(root), [json.dumps(OF_A), json.dumps(OF_B), json.dumps(box)])
    assert list(field(schema, "again").fields) == list(field(schema, "box", "other").fields) == ["amount", "at"]
    assert list(field(schema, "box", "m").fields) == list(field(schema, "of_b").fields) == ["cents", "cur", "at"]
    known = fastavro.parse_schema(json.loads(schema.read_as))  # nothing is missing, nothing is defined twice
    row = {"cents": 1, "cur": "x", "at": 3}, {"amount": 7, "at": 9}
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, known, {"m": row[1], "box": {"m": row[0], "other": row[1]}, "again": row[1], "of_b": row[0]}
    )


def test_what_spark_reads_by_says_every_name_in_full() -> None:
    """Java's parser would look for a name without a namespace in the one around it."""
    inner = named("N", {"again": "At"}, namespace="")
    text = json.dumps(
        named("b.Row", {"bare": named("At", {"n": "int"}, namespace=""), "of_b": OF_B, "n": inner, "x": "Money"})
    )
    fields = {f["name"]: f["type"] for f in json.loads(AvroSchema(text).read_as)["fields"]}
    assert (fields["bare"]["name"], fields["n"]["fields"][0]["type"]) == ("_none_.At", "_none_.At")
    assert (fields["of_b"]["name"], fields["x"]) == ("b.Money", "b.Money")
    assert AvroSchema('"string"').read_as == AvroSchema("string").read_as == '"string"'
