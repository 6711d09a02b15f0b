"""Checks the generators' writers and the oracles' readers against the libraries; and bytes that were once too much for
the Protobuf reader."""

from __future__ import annotations

import io
import json
import time
from random import Random
from typing import Any

import fastavro
import pytest

from include.installation.spark_server import driver_options
from include.lake.uri import LakeUri
from include.settings import PROJECT_ROOT
from include.sources.avro_schema import AvroSchema
from include.sources.protobuf_schema import ProtobufSchema, json_decoder
from tests.hostile.avro import AvroRecords, framed
from tests.hostile.avro import varint as zigzag
from tests.hostile.avro_reader import Held, Reader
from tests.hostile.avro_schemas import AVRO_COLUMNS, logical, record, row_schema
from tests.hostile.protobuf_messages import MESSAGES

_MESSAGE = b"\x08\x05\x10\x06"  # id, seq


@pytest.fixture(scope="module")
def descriptors() -> bytes:
    return ProtobufSchema.of(MESSAGES, {}).descriptors


def test_avro_is_written_and_read_as_by_fastavro() -> None:
    random, compared = Random("fixed"), 0
    for n in range(60):
        schema = row_schema(random, AVRO_COLUMNS)
        known = fastavro.parse_schema(_bare_schema(schema))
        records = AvroRecords(n, {1: schema})
        for _ in range(5):
            _, writer = records.written(0.2)
            data = bytes(writer.out)
            try:
                expected = fastavro.schemaless_reader(io.BytesIO(data), known)
            except UnicodeDecodeError:
                continue
            assert repr(_bare(Reader(data).read(schema))) == repr(expected)
            compared += 1
    assert compared > 150


def _bare_schema(schema: Any) -> Any:
    """The schema without what its values stand for."""
    if isinstance(schema, list):
        return [_bare_schema(option) for option in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in schema.items() if name != "logicalType"}
    found |= {name: _bare_schema(found[name]) for name in ("items", "values") if name in found}
    if "fields" in found:
        found["fields"] = [{**field, "type": _bare_schema(field["type"])} for field in found["fields"]]
    return found


def _bare(held: Held) -> Any:
    kind = held.schema["type"] if isinstance(held.schema, dict) else held.schema
    match held.value:
        case list():
            return [_bare(item) for item in held.value]
        case dict() if kind == "map":
            return {name.decode(): _bare(item) for name, item in held.value.items()}
        case dict():
            return {name: _bare(item) for name, item in held.value.items()}
        case bytes() if kind in ("string", "enum"):
            return held.value.decode()
        case _:
            return held.value


@pytest.mark.parametrize("path", [(-1,), (4,), (2, -1), (2, 3), (2, 2**63 - 1), (2, 2**69), (2**69,), (-(2**63),)])
def test_a_path_to_no_message_leads_to_none(descriptors: bytes, path: tuple[int, ...]) -> None:
    """Python counts negative places from the end; one beyond 64 bits was a TypeError, which failed the attempt."""
    frame = zigzag(len(path)) + b"".join(map(zigzag, path))
    assert json_decoder(descriptors)(framed(1, frame + _MESSAGE)) is None


def test_a_path_to_a_message_leads_there(descriptors: bytes) -> None:
    found = json_decoder(descriptors)(framed(1, zigzag(1) + zigzag(0) + _MESSAGE))
    assert json.loads(str(found)) == {"id": 5, "seq": 6, "name": ""}


@pytest.mark.parametrize("byte", [b"\xff", b"\x80", b"\0", b"\2"])
def test_a_megabyte_of_anything_is_soon_read(descriptors: bytes, byte: bytes) -> None:
    """A number of a megabyte took half a minute, of ten megabytes an hour."""
    began = time.monotonic()
    assert json_decoder(descriptors)(framed(1, byte * 1_000_000)) in (None, json_decoder(descriptors)(framed(1, b"\0")))
    assert time.monotonic() - began < 5


def test_negative_count_of_indexes_is_none(descriptors: bytes) -> None:
    assert json_decoder(descriptors)(framed(1, zigzag(-1) + _MESSAGE)) is None


def test_schemas_that_count_what_takes_no_bytes_are_known() -> None:
    nothing = record("Nothing", {"a": "null", "b": {"type": "fixed", "name": "Empty", "size": 0}})

    def is_bounded(inner: Any) -> bool:
        schema = record(
            "R", {"id": "long", "first": ["null", nothing], "x": ["null", {"type": "array", "items": inner}]}
        )
        return AvroSchema(json.dumps(schema)).is_bounded

    assert not any(map(is_bounded, ("null", "Nothing", "Empty", {"type": "array", "items": "null"})))
    assert all(map(is_bounded, ("int", ["null", "int"], {"type": "map", "values": "null"}, record("S", {"x": "int"}))))


def test_of_two_numbers_in_a_union_nobody_knows_which_it_was_once_spark_has_made_one_of_them() -> None:
    days = {"type": "int", "logicalType": "date"}
    unions: list[tuple[list[Any], str]] = [
        (["null", "int", "long"], "long"),
        (["float", "double"], "double"),
        (["null", days, "long"], "unknown"),
        (["null", days], "date"),
        ([days, "string"], "union"),
    ]
    for union, kind in unions:
        record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": union}]}
        assert AvroSchema(json.dumps(record)).fields["x"].kind == kind, union


def test_short_decimals_are_read_as_ones_of_more_than_64_bits() -> None:
    fields = {
        "short": ["null", logical("bytes", "decimal", precision=12, scale=2)],
        "long": logical("bytes", "decimal", precision=38, scale=2),
        "small": logical("fixed", "decimal", precision=18, scale=2, name="F8", size=8),
        "large": {"type": "array", "items": logical("fixed", "decimal", precision=3, name="F9", size=9)},
    }
    found = json.loads(AvroSchema(json.dumps(record("R", fields))).read_as)
    types = {field["name"]: field["type"] for field in found["fields"]}
    assert types["short"][1]["precision"] == types["large"]["items"]["precision"] == 19
    assert (types["long"]["precision"], types["small"]["precision"]) == (38, 18)


def test_every_spark_of_lakemark_bounds_what_a_record_of_avro_may_claim() -> None:
    options = driver_options(PROJECT_ROOT / ".lakemark" / "jars", PROJECT_ROOT, LakeUri("/lake"))
    for process in ("driver", "executor"):
        said = options[f"spark.{process}.defaultJavaOptions"]
        for limit in ("bytes.maxLength", "string.maxLength", "collectionItems.maxLength"):
            assert f"-Dorg.apache.avro.limits.{limit}=" in said
