"""Avro and Protobuf in Confluent's wire format, with a real schema registry; CSV and plain texts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import SparkSession

from include.audit.auditor import audit
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch
from include.protocol.errors import RetryableError
from include.protocol.ranges import OffsetRange
from include.settings import PROJECT_ROOT
from include.sources.avro_schema import AvroSchema
from include.sources.protobuf_schema import ProtobufSchema
from include.sources.schema_registry import NoSchema, SchemaRegistry
from spark_jobs.changes.decode import decode
from tests.support.records import RECORDS
from tests.support.schema_registry import RegistryServer, schema_registry
from tests.support.world import World

_AT = datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC)


@pytest.fixture(scope="module")
def registry(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with schema_registry(stack.settings, tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def spark(world: World) -> Iterator[SparkSession]:
    with world.session() as spark:
        yield spark


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": type_} for n, type_ in fields]}


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def a_pipeline(schema: str, change: dict[str, Any] | None = None, **source: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": schema, **source},
            "change": {"keys": ["id"], **(change or {})},
            "target": {"table": "lake://silver/p"},
        }
    )


def decoded(
    spark: SparkSession, pipeline: Pipeline, records: list[tuple[bytes | None, bytes | None]]
) -> list[dict[str, Any]]:
    rows = [(key, value, "t", 0, n, _AT) for n, (key, value) in enumerate(records)]
    batch = Batch("p", 1, 0, (OffsetRange("t", 0, 0, len(rows)),), {"t": "id"}, "cluster")
    found = decode(spark.createDataFrame(rows, RECORDS), pipeline, batch).orderBy("offset").collect()
    return [row.asDict(recursive=True) for row in found]


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in row["row"].items() if name != "_lakemark")


def test_records_of_several_schemas_in_one_batch(spark: SparkSession, registry: RegistryServer) -> None:
    first = record("Order", ("id", "long"), ("name", ["null", "string"]))
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-micros"}
    second = record("Order", ("id", "int"), ("name", "string"), ("price", ["null", price]), ("at", at), ("more", "int"))
    ids = registry.register("orders-1", first), registry.register("orders-2", second)
    whole = {"id": 2, "name": "Bert", "price": Decimal("12.50"), "at": _AT, "more": 1}
    source = {"format": "avro", "registry": {"url": registry.url}}
    pipeline = a_pipeline("id BIGINT, name STRING, price DECIMAL(12, 2), at TIMESTAMP", {"absent": "keep"}, **source)
    good = [
        (None, framed(ids[0], first, {"id": 1, "name": "Anne"})),
        (None, framed(ids[1], second, whole)),
        (None, framed(ids[0], first, {"id": 3, "name": None})),
    ]
    bad = [
        (None, b'{"id": 1}'),
        (None, framed(99_999, first, {"id": 4, "name": None})),
        (None, good[1][1][:7]),
        (None, None),
    ]
    rows = decoded(spark, pipeline, good + bad)
    assert [values(row) for row in rows[:3]] == [
        (1, "Anne", None, None),
        (2, "Bert", Decimal("12.50"), _AT.replace(tzinfo=None)),
        (3, None, None, None),
    ]
    assert [row["absent"] for row in rows[:3]] == [["price", "at"], [], ["price", "at"]]  # as the writer knew of none
    assert [row["reason"] for row in rows] == [
        *(None,) * 3,
        "not in the wire format of a schema registry: a zero byte and the id of a schema come first",
        "schema 99999 is not in the registry",
        "not decodable with the declared schema",
        "null value",
    ]


def test_a_value_of_another_type_and_a_number_that_says_nothing_are_set_aside(
    spark: SparkSession, registry: RegistryServer
) -> None:
    schema = record("Strange", ("id", "string"), ("at", "long"))
    number = registry.register("strange", schema)
    pipeline = a_pipeline("id BIGINT, at TIMESTAMP", format="avro", registry={"url": registry.url})
    rows = decoded(spark, pipeline, [(None, framed(number, schema, {"id": text, "at": 5})) for text in ("seven", "7")])
    assert [row["reason"] for row in rows] == ["column id is no BIGINT", "column at is no TIMESTAMP"]


def test_what_does_not_fit_is_rescued(spark: SparkSession, registry: RegistryServer) -> None:
    change = {"on_schema_change": "rescue"}
    schema = record("Wide", ("id", "long"), ("name", "string"), ("more", ["null", "int"]), ("at", "string"))
    number = registry.register("wide", schema)
    columns = "id BIGINT, name STRING, at TIMESTAMP"
    pipeline = a_pipeline(columns, change, format="avro", registry={"url": registry.url})
    fits = {"id": 1, "name": "Anne", "more": None, "at": "2024-02-29T12:34:56.789012Z"}
    values_of = [fits, {**fits, "more": 5}, {**fits, "at": "soon"}]
    rows = decoded(spark, pipeline, [(None, framed(number, schema, value)) for value in values_of])
    assert [row["row"]["_rescued"] for row in rows] == [None, '{"more":5}', '{"at":"soon"}']
    assert [row["reason"] for row in rows] == [None, None, None]
    decides = a_pipeline(
        columns, {**change, "delete_when": "at < now()"}, format="avro", registry={"url": registry.url}
    )
    [row] = decoded(spark, decides, [(None, framed(number, schema, values_of[2]))])
    assert row["reason"] == "column at is no TIMESTAMP"

    pipeline = a_pipeline(columns, change)
    lines = [
        '{"id": 1, "name": "Anne"}',
        '{"id": 1, "nested": {"a": [1]}, "name": null}',
        '{"id": 2, "at": "soon"}',
        '{"id": "x", "name": "B"}',
        "[1]",
        "{",
    ]
    rows = decoded(spark, pipeline, [(None, line.encode()) for line in lines])
    kept = [row["row"]["_rescued"] for row in rows[:4]]
    assert kept == [None, '{"nested":"{\\"a\\":[1]}"}', '{"at":"soon"}', '{"id":"x"}']
    assert values(rows[3])[1] == "B"
    none = "not a JSON object"
    assert [row["reason"] for row in rows] == [*(None,) * 3, "column id is no BIGINT", none, none]


def test_debeziums_avro(spark: SparkSession, registry: RegistryServer) -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1}
    date = {"type": "int", "connect.name": "io.debezium.time.Date"}
    loose = record("VariableScaleDecimal", ("scale", "int"), ("value", "bytes"))
    row = record(
        "Value", ("id", "long"), ("note", ["null", "string"]), ("at", ["null", micros]), ("born", date), ("n", loose)
    )
    block = record("Source", ("lsn", ["null", "long"]), ("ts_ms", "long"))
    envelope = record(
        "Envelope", ("before", ["null", row]), ("after", ["null", "Value"]), ("source", block), ("op", "string")
    )
    key = record("Key", ("id", "long"))
    ids = registry.register("debezium-value", envelope), registry.register("debezium-key", key)
    pipeline = a_pipeline(
        "id BIGINT, note STRING, at TIMESTAMP, born DATE, n DECIMAL(12, 3)",
        {"order_by": ["source.lsn"]},
        format="debezium-avro",
        key="avro",
        registry={"url": registry.url},
    )

    def change(op: str, lsn: int, before: Any = None, after: Any = None) -> tuple[bytes, bytes]:
        value = {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": 1}}
        return framed(ids[1], key, {"id": 1}), framed(ids[0], envelope, value)

    image = {
        "id": 1,
        "note": "long",
        "at": 1709210096789012,
        "born": 19782,
        "n": {"scale": 3, "value": b"\x01\xe2\x40"},
    }
    rows = decoded(
        spark,
        pipeline,
        [
            change("r", 1, None, image),
            change("u", 2, None, {**image, "note": "__debezium_unavailable_value"}),
            change("u", 3, {**image, "id": 7}, image),
            change("d", 4),
            (framed(ids[1], key, {"id": 1}), None),
            change("t", 5),
            change("c", 6),
        ],
    )
    day = datetime(2024, 2, 29).date()
    assert values(rows[0]) == (1, "long", _AT.replace(tzinfo=None), day, Decimal("123.456"))
    assert (rows[1]["absent"], values(rows[1])[1]) == (["note"], None)
    assert (rows[0]["moved_from"], rows[2]["moved_from"]) == (None, {"id": 7})
    assert [row["row"]["_lakemark"]["deleted"] for row in rows[:5]] == [False, False, False, True, False]
    assert values(rows[3])[0] == 1  # from Kafka's key
    assert [row["filtered"] for row in rows[:5]] == [False, False, False, False, True]
    assert [row["reason"] for row in rows] == [*(None,) * 5, "a truncate event", "the envelope has no row in `after`"]
    assert [row["row"]["_lakemark"]["change_order"]["source.lsn"] for row in rows[:4]] == [1, 2, 3, 4]


def test_debeziums_avro_of_keys_and_placeholders(spark: SparkSession, registry: RegistryServer) -> None:
    text = "__debezium_unavailable_value"
    parts = {
        "m": {"type": "map", "values": "string"},
        "a": {"type": "array", "items": "int"},
        "days": {"type": "array", "items": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        "c": {"type": "array", "items": "bytes"},
    }
    optional = [(name, ["null", type_]) for name, type_ in parts.items()]
    after = record("Value", ("id", "long"), ("n", ["null", "string"]), *optional)
    before = record("Before", ("id", ["null", "string"]), ("n", ["null", "string"]))
    envelope = record("Envelope", ("before", ["null", before]), ("after", ["null", after]), ("op", "string"))
    number = registry.register("old-keys-value", envelope)
    pipeline = a_pipeline(
        "id BIGINT, n INT, m MAP<STRING, STRING>, a ARRAY<INT>, days ARRAY<DATE>, c ARRAY<BINARY>",
        {"order_by": []},
        format="debezium-avro",
        registry={"url": registry.url},
    )

    def change(op: str, before: Any, after: Any) -> tuple[None, bytes]:
        none = dict.fromkeys(parts)
        value = {"op": op, "before": before, "after": after and {"id": 2, "n": None, **none, **after}}
        return None, framed(number, envelope, value)

    of_bytes = list(text.encode())
    placeholders = {"m": {text: text}, "a": of_bytes, "days": of_bytes, "c": [text.encode()]}
    rows = decoded(
        spark,
        pipeline,
        [
            change("u", {"id": "x1", "n": None}, {"n": "5"}),
            change("u", {"id": "1", "n": "x"}, {"n": "5"}),
            change("u", {"id": None, "n": "x"}, {"n": "5"}),
            change("d", {"id": "1", "n": "x"}, None),
            change("d", {"id": "x1", "n": "x"}, None),
            change("u", None, {"n": "x"}),
            change("u", None, placeholders),
        ],
    )
    lost = "column id is no BIGINT"
    assert [row["reason"] for row in rows] == [
        f"in `before`: {lost}",
        *(None,) * 3,
        lost,
        "column n is no INT",
        None,
    ]
    assert [row["moved_from"] for row in rows[1:3]] == [{"id": 1}, None]
    assert rows[6]["absent"] == list(placeholders)


def test_a_schema_that_refers_to_others(spark: SparkSession, registry: RegistryServer) -> None:
    city = {**record("City", ("name", "string")), "namespace": "geo"}
    registry.register("city", city)
    person = {**record("Person", ("id", "long"), ("home", "geo.City"), ("work", "geo.City")), "namespace": "people"}
    reference = {"name": "geo.City", "subject": "city", "version": 1}
    number = registry.register("person", person, [reference])
    pipeline = a_pipeline(
        "id BIGINT, home STRUCT<name: STRING>, work STRUCT<name: STRING>", format="avro", registry={"url": registry.url}
    )
    whole = {**person, "fields": [person["fields"][0], {"name": "home", "type": city}, person["fields"][2]]}
    value = {"id": 1, "home": {"name": "Oslo"}, "work": {"name": "Moss"}}
    [row] = decoded(spark, pipeline, [(None, framed(number, whole, value))])
    assert values(row) == (1, {"name": "Oslo"}, {"name": "Moss"})


def test_protobuf(spark: SparkSession, registry: RegistryServer) -> None:
    money = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }'
    registry.register("money", money, kind="PROTOBUF")
    order = """
        syntax = "proto3"; package shop;
        import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "shop/money.proto";
        message Other { string unused = 1; }
        message Order {
          enum State { NEW = 0; PAID = 1; }
          message Line { string article = 1; int32 pieces = 2; }
          int64 id = 1; optional string name = 2; google.protobuf.Timestamp at = 3; Money price = 4; State state = 5;
          repeated Line lines = 6; map<string, int32> stock = 7; bytes raw = 8; google.protobuf.Int64Value big = 9;
        }"""
    references = [{"name": "shop/money.proto", "subject": "money", "version": 1}]
    number = registry.register("order", order, references, "PROTOBUF")

    files = descriptor_pb2.FileDescriptorSet.FromString(
        ProtobufSchema.of(order, {"shop/money.proto": money}).descriptors
    )
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    order_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    line_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order.Line"))

    def sent(message: Any, *indexes: int) -> tuple[None, bytes]:
        head = bytes([len(indexes) * 2, *(2 * index for index in indexes)])  # zigzag varints
        return None, b"\0" + number.to_bytes(4, "big") + head + message.SerializeToString()

    whole = order_class(id=2**40, name="Anne", state=1, raw=b"\0\1")
    whole.at.FromDatetime(_AT.replace(tzinfo=None))
    whole.price.cents, whole.price.currency = 1250, "NOK"
    whole.lines.add(article="lamp", pieces=2)
    whole.stock["a"] = 7
    whole.big.value = 2**50
    schema = "id BIGINT, name STRING, at TIMESTAMP, price STRUCT<cents: BIGINT, currency: STRING>, state STRING, "
    schema += "lines ARRAY<STRUCT<article: STRING, pieces: INT>>, stock MAP<STRING, INT>, raw BINARY, big BIGINT"
    pipeline = a_pipeline(schema, {"absent": "keep"}, format="protobuf", registry={"url": registry.url})
    rows = decoded(
        spark,
        pipeline,
        [
            sent(whole, 1),
            sent(order_class(id=3), 1),
            sent(line_class(article="x"), 1, 0),
            (None, b"\0" + number.to_bytes(4, "big") + b"\x02\x02\xff\xff"),
            (None, b"\0\0\1\xff\xff\0"),
            (None, b"{}"),
            (None, None),
        ],
    )
    at = _AT.replace(tzinfo=None)
    money_row, lines = {"cents": 1250, "currency": "NOK"}, [{"article": "lamp", "pieces": 2}]
    expected = (2**40, "Anne", at, money_row, "PAID", lines, {"a": 7}, bytearray(b"\0\1"), 2**50)
    assert values(rows[0]) == expected
    assert (values(rows[1])[0], values(rows[1])[4]) == (3, "NEW")  # without presence: the default
    assert sorted(rows[1]["absent"]) == ["at", "big", "name", "price"]
    assert [row["reason"] for row in rows] == [
        None,
        None,
        "null in a key column (id)",  # another message of the file
        "not decodable with the declared schema",
        "schema 131071 is not in the registry",
        "not in the wire format of a schema registry: a zero byte and the id of a schema come first",
        "null value",
    ]


def test_a_registry_that_is_away_or_refuses_says_so(registry: RegistryServer) -> None:
    away = a_pipeline("id BIGINT", format="avro", registry={"url": "http://127.0.0.1:9"})
    with pytest.raises(RetryableError, match=r"the schema registry does not answer.*schemas/ids/1"):
        SchemaRegistry.of(away.source).avro(1)
    here = a_pipeline("id BIGINT", format="avro", registry={"url": registry.url})
    assert SchemaRegistry.of(here.source).avro(88_888) == NoSchema("schema 88888 is not in the registry")
    known = registry.register("a-text", {"type": "string"})
    assert isinstance(SchemaRegistry.of(here.source).avro(known), AvroSchema)


def test_lines_of_csv(spark: SparkSession) -> None:
    pipeline = a_pipeline("id BIGINT, name STRING, at TIMESTAMP", format="csv", csv={"delimiter": ";", "null": "-"})
    lines = ['1;"Anne; the first";2024-02-29T12:34:56Z\n', "2;-;-", "3", "x;y;z", "4;a;b;c", "5;Bo;2024-02-30"]
    rows = decoded(spark, pipeline, [(None, line.encode()) for line in lines] + [(None, None)])
    at = datetime(2024, 2, 29, 12, 34, 56)
    assert [values(row) for row in rows[:2]] == [(1, "Anne; the first", at), (2, None, None)]
    unread = "not decodable with the declared schema"
    no_time = "column at is no TIMESTAMP"
    no_number = "column id is no BIGINT"
    assert [row["reason"] for row in rows] == [None, None, unread, no_number, unread, no_time, "null value"]


def test_plain_texts_with_kafkas_key(spark: SparkSession) -> None:
    keys = {"place": "offset", "shard": "partition"}
    pipeline = a_pipeline("text STRING", {"keys": list(keys)}, format="string", metadata=keys)
    rows = decoded(spark, pipeline, [(None, b"a line"), (None, b"\xff\xfe"), (None, None)])
    assert values(rows[0]) == ("a line", 0, 0)
    assert [row["reason"] for row in rows] == [None, "not decodable with the declared schema", "null value"]


def test_the_examples_with_a_registry(world: World, registry: RegistryServer) -> None:
    def run(name: str, *records: tuple[bytes | None, bytes]) -> list[dict[str, Any]]:
        text = (PROJECT_ROOT / "include" / "pipelines" / "examples" / f"{name}.yaml").read_text()
        text = text.replace("${SCHEMA_REGISTRY:-http://127.0.0.1:8081}", registry.url)
        (world.settings.pipelines / f"{name}.yaml").write_text(text)
        pipeline = world.load(name)
        [topic] = pipeline.source.topics
        world.create_topic(topic, 1)
        keys, values_of = zip(*records, strict=True)
        world.produce(topic, values_of, 1, keys=keys)
        world.run_batch(pipeline)
        assert audit(world.settings, pipeline).findings == ()
        return sorted(world.rows(pipeline), key=lambda row: row["id"])

    amount = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    payment = record("Payment", ("id", "long"), ("payer", "string"), ("amount", amount), ("booked_at", at))
    number = registry.register("payments-value", payment)
    paid = {"id": 1, "payer": "Anne", "amount": Decimal("9.90"), "booked_at": _AT}
    [row] = run(
        "avro", (None, framed(number, payment, paid)), (None, framed(number, payment, {**paid, "payer": "Ann"}))
    )
    assert (row["payer"], row["amount"]) == ("Ann", Decimal("9.90"))

    image, key = record("Stock", ("id", "long"), ("pieces", "int")), record("StockKey", ("id", "long"))
    block = record("StockSource", ("ts_ms", "long"))
    images = ("before", ["null", image]), ("after", ["null", "Stock"])
    envelope = record("StockEnvelope", *images, ("source", block), ("op", "string"))
    ids = registry.register("stock-value", envelope), registry.register("stock-key", key)

    def stock(op: str, ts_ms: int, id_: int, pieces: int | None) -> tuple[bytes, bytes]:
        after = None if pieces is None else {"id": id_, "pieces": pieces}
        value = {"op": op, "before": None, "after": after, "source": {"ts_ms": ts_ms}}
        return framed(ids[1], key, {"id": id_}), framed(ids[0], envelope, value)

    rows = run("debezium_avro", stock("c", 1, 1, 5), stock("u", 3, 1, 7), stock("u", 2, 1, 6), stock("d", 4, 2, None))
    assert [(row["id"], row["pieces"], row["_lakemark"]["deleted"]) for row in rows] == [(1, 7, False), (2, None, True)]

    ride = 'syntax = "proto3"; message Ride { int64 id = 1; optional string driver = 2; int64 seq = 3; }'
    number = registry.register("rides-value", ride, kind="PROTOBUF")
    head = b"\0" + number.to_bytes(4, "big") + b"\0"
    with_driver, without = b"\x08\x01\x12\x03Ann\x18\x01", b"\x08\x01\x18\x02"  # fields 1, 2 and 3; 1 and 3
    [row] = run("protobuf", (None, head + with_driver), (None, head + without))
    assert (row["id"], row["driver"], row["seq"]) == (1, "Ann", 2)


def test_an_avro_value_becomes_what_it_says_or_the_record_is_set_aside(
    spark: SparkSession, registry: RegistryServer
) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    inner = record("Inner", ("city", "string"), ("name", "string"))
    cases: list[tuple[Any, Any, str, Any]] = [  # schema, value, declared type, what it becomes
        (millis, _AT, "BIGINT", None),
        (millis, _AT, "TIMESTAMP", _AT.replace(tzinfo=None, microsecond=789000)),
        ("double", 1.9, "BIGINT", None),
        ("double", 2.0, "BIGINT", 2),
        ("double", float("inf"), "BIGINT", None),
        ("double", 1e300, "FLOAT", None),
        ("long", 2**40, "INT", None),
        (["null", "string", "long"], "abc", "STRING", "abc"),
        (["null", "string", "long"], 7, "STRING", "7"),
        (["null", "string", "long"], "abc", "BIGINT", None),
        ("bytes", b"\xff", "STRING", None),
        ("bytes", b"text", "STRING", "text"),
        (inner, {"city": "Oslo", "name": "Ann"}, "STRUCT<name: STRING, city: STRING>", {"name": "Ann", "city": "Oslo"}),
        (inner, {"city": "Oslo", "name": "Ann"}, "STRING", None),
        ({"type": "array", "items": "double"}, [1.0, 1.5], "ARRAY<INT>", None),
        ({"type": "map", "values": "long"}, {"a": 1}, "MAP<STRING, INT>", {"a": 1}),
        ("string", "10:20:30", "TIMESTAMP", None),
        ("long", 5, "TIMESTAMP", None),
        ({"type": "long", "logicalType": "time-micros"}, 1_234_567, "INT", 1_234_567),
        ({"type": "int", "logicalType": "time-millis"}, 1_234, "BIGINT", 1_234),
    ]
    for n, (schema, value, type_, expected) in enumerate(cases):
        whole = record(f"Case{n}", ("id", "long"), ("v", schema))
        number = registry.register(f"case-{n}", whole)
        pipeline = a_pipeline(f"id BIGINT, v {type_}", format="avro", registry={"url": registry.url})
        [row] = decoded(spark, pipeline, [(None, framed(number, whole, {"id": 1, "v": value}))])
        said = None if expected is not None else f"column v is no {type_}"
        assert row["reason"] == said, (schema, value, type_)
        assert said or row["row"]["v"] == expected, (schema, value, type_)


def test_i9_keys_that_are_not_exactly_what_is_declared_do_not_become_one(
    spark: SparkSession, registry: RegistryServer
) -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    cases: list[tuple[Any, Any, str, bool]] = [  # schema, value, declared type, whether it is exactly that
        (amount, Decimal("1.25"), "DECIMAL(4, 1)", False),
        (amount, Decimal("1.30"), "DECIMAL(4, 1)", True),
        ("double", 1.25, "DECIMAL(4, 1)", False),
        ("double", 0.1, "DECIMAL(4, 1)", True),
        ("string", "1.25", "DECIMAL(4, 1)", False),
        (["null", "string"], "1.3", "DECIMAL(4, 1)", True),
        (nanos, 1_700_000_000_000_000_001, "TIMESTAMP", False),
        (nanos, 1_700_000_000_000_001_000, "TIMESTAMP", True),
    ]
    for n, (schema, value, type_, is_exact) in enumerate(cases):
        whole = record(f"Key{n}", ("id", schema))
        number = registry.register(f"key-{n}", whole)
        pipeline = a_pipeline(f"id {type_}", format="avro", registry={"url": registry.url})
        [row] = decoded(spark, pipeline, [(None, framed(number, whole, {"id": value}))])
        none = f"column id is no {type_} exactly, as a key has to be"
        assert row["reason"] == (None if is_exact else none), (schema, value, type_)


def test_a_value_that_loses_a_part_is_lost_whole_and_rescued(spark: SparkSession, registry: RegistryServer) -> None:
    inner = record("Parts", ("a", "string"), ("b", "long"))
    whole = record("Whole", ("id", "long"), ("s", inner), ("l", {"type": "array", "items": "string"}))
    number = registry.register("whole", whole)
    values = {"id": 1, "s": {"a": "abc", "b": 5}, "l": ["1", "x"]}
    columns = "id BIGINT, s STRUCT<a: BIGINT, b: BIGINT>, l ARRAY<BIGINT>"
    pipeline = a_pipeline(columns, {"on_schema_change": "rescue"}, format="avro", registry={"url": registry.url})
    [row] = decoded(spark, pipeline, [(None, framed(number, whole, values))])
    assert (row["reason"], row["row"]["s"], row["row"]["l"]) == (None, None, None)
    assert row["row"]["_rescued"] == '{"s":{"a":"abc","b":5},"l":["1","x"]}'


def test_a_schema_that_is_of_no_use_stops_nobody(spark: SparkSession, registry: RegistryServer) -> None:
    good = record("Good", ("id", "long"))
    node = record("Node", ("id", "long"), ("next", ["null", "Node"]))
    twice = record("Twice", ("id", "long"), ("ID", "long"))
    numbers = [
        registry.register("good", good),
        registry.register("node", node),
        registry.register("twice", twice),
        registry.register("text", {"type": "string"}),
        registry.register("message", 'syntax = "proto3"; message M { int64 id = 1; }', kind="PROTOBUF"),
    ]
    pipeline = a_pipeline("id BIGINT", format="avro", registry={"url": registry.url})
    body = framed(0, good, {"id": 1})[5:]
    rows = decoded(spark, pipeline, [(None, b"\0" + n.to_bytes(4, "big") + body) for n in (*numbers, 99_999)])
    assert [row["reason"] for row in rows] == [
        None,
        f"schema {numbers[1]} cannot be read by Spark",
        f"schema {numbers[2]} cannot be read by Spark",
        f"schema {numbers[3]} is no record",
        f"schema {numbers[4]} is of type PROTOBUF, not AVRO",
        "schema 99999 is not in the registry",
    ]


def test_a_protobuf_moment_that_is_none_stops_nobody(spark: SparkSession, registry: RegistryServer) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
    text += "message At { int64 id = 1; google.protobuf.Timestamp at = 2; double x = 3; }"
    number = registry.register("at", text, kind="PROTOBUF")
    head = b"\0" + number.to_bytes(4, "big") + b"\0"
    millis_in_seconds = b"\x08\x01\x12\x07\x08" + b"\x80\xd0\x95\xff\xbc\x31"  # 1_700_000_000_000
    pipeline = a_pipeline("id BIGINT, at TIMESTAMP, x DOUBLE", format="protobuf", registry={"url": registry.url})
    not_finite = b"\x08\x01\x19" + b"\x00\x00\x00\x00\x00\x00\xf0\x7f"
    rows = decoded(spark, pipeline, [(None, head + body) for body in (millis_in_seconds, not_finite, b"\x08\x01")])
    assert [row["reason"] for row in rows] == ["not decodable with the declared schema", None, None]
    assert rows[1]["row"]["x"] == float("inf")
