"""The value of an environment variable is shown nowhere, wherever the pipeline file uses it; and an address may not
contain a login."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from include.participants.explain import explanation, markdown
from include.pipeline_file import Pipeline, load_pipeline
from include.pipeline_file.schedule import OnData, OnTables
from include.protocol.errors import PipelineFileError

# Shapes that a secret may have, so that it is refused at most places, and accepted at some.
SECRETS = ["hunter2", "Hunter2-b", "hu\"nt'er2", "hunter2 INT", "id hunter2", "lake://hunter2/x", "hunter2.sql"]
PARTS = ("hunter2", "Hunter2", 'hu"nt', "er2")  # what a text of any of them would show

FILE: dict[str, Any] = {
    "name": "orders",
    "source": {
        "bootstrap_servers": "${KAFKA_BROKERS}",
        "topics": ["orders"],
        "schema": "id BIGINT, at TIMESTAMP",
        "security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": "${KAFKA_OTHER}"},
        "registry": {"url": "http://registry:8081"},
    },
    "change": {"keys": ["id"], "order_by": ["at"]},
    "target": {"table": "lake://silver/orders"},
}

Place = tuple[str | int, ...]


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)


def places(model: type[BaseModel] = Pipeline, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every field of the file, by its place, with its type; the fields of lists' sections at 0."""
    for name, info in model.model_fields.items():
        place = (*at, info.alias or name)
        yield place, info.annotation
        is_list = "tuple" in str(info.annotation)
        for section in models(info.annotation):
            if section is OnData:
                yield from places(section, (*place, "on_data"))
            else:
                yield from places(section, (*place, 0) if is_list else () if section is Pipeline else place)


def put(data: Any, place: Place, value: Any) -> Any:
    """A copy of the data with a value at a place, and with the sections above it, if there are none."""
    data = deepcopy(data) if isinstance(data, dict | list) else ([] if isinstance(place[0], int) else {})
    first, *rest = place
    if isinstance(data, list):
        data = [*data, None] if len(data) <= int(first) else data
        data[int(first)] = put(data[int(first)], tuple(rest), value) if rest else value
    else:
        data[first] = put(data.get(first), tuple(rest), value) if rest else value
    return data


FORMS: dict[str, Any] = {
    "all of it": "${KAFKA_PW}",
    "a part": "id ${KAFKA_PW} x",
    "its end": "lake://silver/${KAFKA_PW}",
    "a name": "${KAFKA_PW}.sql",
    "a list": ["${KAFKA_PW}"],
    "a part of a list": ["id", "a${KAFKA_PW}"],
    "a map": {"id": "${KAFKA_PW}"},
    "columns": "id BIGINT, at TIMESTAMP, a ${KAFKA_PW}",
    "a column": "id BIGINT, at TIMESTAMP, ${KAFKA_PW} INT",
}


def told(path: Path, secret: str) -> list[str]:
    """Everything that is shown about a file."""
    environment = {"KAFKA_BROKERS": "k:9092", "KAFKA_OTHER": secret, "KAFKA_PW": secret}
    try:
        pipeline = load_pipeline(path, environment)
    except PipelineFileError as error:
        return [str(error.facts()), str(error), "".join(traceback.format_exception(error)), repr(error)]
    halves = [part for half in pipeline.halves for part in (repr(half), str(explanation(half)), markdown(half))]
    held = [getattr(pipeline, name) for name in type(pipeline).model_fields]
    sections = [repr(section) for section in held if isinstance(section, BaseModel)]
    return [*halves, *sections, str(pipeline), *pipeline.warnings, repr(pipeline.for_people)]


ALL = list(places())


def test_the_walk_finds_the_fields() -> None:
    names = {".".join(map(str, place)) for place, _ in ALL}
    assert {"name", "source.security.mechanism", "source.registry.url", "target.routes.0.when"} < names
    assert {"quality.table.schedule", "schedule.on_data.records", "schedule.tables", "maintenance"} < names
    assert {"source.schema", "transform.references", "change.previous_keys", "source.limits.seconds_per_batch"} < names
    assert OnTables in set(models(Pipeline.model_fields["schedule"].annotation))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("place", [place for place, _ in ALL], ids=lambda place: ".".join(map(str, place)))
def test_what_a_variable_holds_is_told_nowhere(tmp_path: Path, place: Place, secret: str) -> None:
    path = tmp_path / "orders.yaml"
    for form, value in FORMS.items():
        path.write_text(yaml.safe_dump(put(FILE, place, value)))
        for text in told(path, secret):
            assert not [part for part in PARTS if part in text], (form, text)


@pytest.mark.parametrize(
    ("field", "address"),
    [
        ("source.registry.url", "http://user:hunter2@registry:8081"),
        ("source.registry.url", "http://hunter2@registry"),
        ("source.registry.url", "http://user:hun/ter2@registry"),
        ("source.registry.url", "http://registry:8081?password=hunter2"),
        ("source.registry.url", "http://registry:8081/#hunter2"),
        ("source.registry.url", "http://user:hunter2%40registry"),
        ("source.registry.url", "htp://user:hunter2@registry"),
        ("source.registry.url", "hunter2"),
        ("source.registry.ca_file", "https://user:hunter2@registry/ca.pem"),
        ("source.bootstrap_servers", "user:hunter2@broker:9092"),
        ("source.bootstrap_servers", "broker:9092,SASL_SSL://user:hunter2@broker2:9092"),
        ("source.bootstrap_servers", "broker:9092?password=hunter2"),
        ("source.security.ca_file", "https://user:hunter2@registry/ca.pem"),
        ("target.table", "s3://user:hunter2@bucket/x"),
        ("source.schema", "http://user:hunter2@host INT"),
        ("schedule", "postgresql://user:hunter2@host/db"),
    ],
)
@pytest.mark.parametrize("by_variable", [False, True])
def test_an_address_holds_no_login(tmp_path: Path, field: str, address: str, by_variable: bool) -> None:
    path = tmp_path / "orders.yaml"
    data = put(FILE, tuple(field.split(".")), "${KAFKA_PW}" if by_variable else address)
    path.write_text(yaml.safe_dump(data))
    shown = r".*; found '\$\{KAFKA_PW\}'" if by_variable else ""
    with pytest.raises(PipelineFileError, match=f"field {field}{shown}") as failure:
        load_pipeline(path, {"KAFKA_BROKERS": "k:9092", "KAFKA_OTHER": "x", "KAFKA_PW": address})
    assert "ter2" not in "".join(traceback.format_exception(failure.value)) + str(failure.value.facts())


@pytest.mark.parametrize(
    "servers", ["k", "k-1.example.com:9092, k_2:9092", "[::1]:9092", "[fe80::1%eth0]:9092", "SASL_SSL://k:9092"]
)
def test_plain_addresses_are_good(tmp_path: Path, servers: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(put(FILE, ("source", "registry", "url"), "https://r.example.com/apis/ccompat/v7/")))
    assert load_pipeline(path, {"KAFKA_BROKERS": servers, "KAFKA_OTHER": "x"}).source.bootstrap_servers == servers


def test_an_error_beside_a_variable_says_all_that_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    data = put(put(FILE, ("source", "registry", "url"), "${KAFKA_REGISTRY}"), ("change", "keys"), ["ident"])
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(path, {"KAFKA_BROKERS": "k:9092", "KAFKA_OTHER": "x", "KAFKA_REGISTRY": "hunter2"})
    assert "source.registry.url: expected http://HOST:PORT/PATH" in str(failure.value)
    assert "found '${KAFKA_REGISTRY}'" in str(failure.value)
    assert "a column of source.schema: id, at; found 'ident'" in str(failure.value)
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("description", "${AIRFLOW__CORE__FERNET_KEY}"),
        ("description", "${KAFKA_OTHER}"),
        ("target.table", "lake://${KAFKA_OTHER}/orders"),
        ("source.filter", "name = '${KAFKA_OTHER:-x}'"),
        ("source.topics", ["orders", "${KAFKA_OTHER}"]),
        ("transform.references", {"a": "lake://${KAFKA_OTHER}/x"}),
    ],
)
def test_a_variable_stands_only_where_a_source_or_a_login_is(tmp_path: Path, field: str, text: Any) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(put(FILE, tuple(field.split(".")), text)))
    environment = {"KAFKA_BROKERS": "k:9092", "KAFKA_OTHER": "hunter2", "AIRFLOW__CORE__FERNET_KEY": "hunter2"}
    with pytest.raises(
        PipelineFileError, match=r"no variable: those may stand only in .*source\.bootstrap_servers"
    ) as failure:
        load_pipeline(path, environment)
    assert "hunter2" not in str(failure.value.facts())


def test_a_file_may_name_only_variables_that_are_meant_for_it(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(yaml.safe_dump(put(FILE, ("source", "bootstrap_servers"), "${ORDERS_BROKERS}")))
    environment = {"KAFKA_OTHER": "x", "ORDERS_BROKERS": "hunter2:9092"}
    allowed = "begins with KAFKA_ or LAKEMARK_VAR_ \\(LAKEMARK_VARIABLE_PREFIXES allows more\\)"
    with pytest.raises(PipelineFileError, match=allowed) as failure:
        load_pipeline(path, environment)
    assert "hunter2" not in str(failure.value.facts())
    more = {**environment, "LAKEMARK_VARIABLE_PREFIXES": "CRM_, ORDERS_"}
    assert load_pipeline(path, more).source.bootstrap_servers == "hunter2:9092"


@pytest.mark.parametrize("text", ["a: *hunter2", "a: !hunter2 x", "password: @hunter2", "password: 'hunter2\nb: ["])
def test_text_that_is_no_yaml_is_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(f"name: orders\n{text}\n")
    with pytest.raises(
        PipelineFileError, match=r"(valid YAML|plain values.*); found .* in line \d, column \d"
    ) as failure:
        load_pipeline(path, {})
    assert "hunter2" not in "".join(traceback.format_exception(failure.value))
