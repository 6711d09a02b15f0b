"""A login may come from an Airflow connection: in any of the forms that Airflow has for one, and never in a text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from include.pipeline_file import Source
from include.protocol.errors import LakemarkError, RetryableError, TerminalError
from include.sources import logins
from include.sources.kafka_options import librdkafka_options, spark_options
from include.sources.logins import Login, login_of, look_up_with
from include.sources.schema_registry import SchemaRegistry

PASSWORD = 'hunter2/"@:%é'
VARIABLE = "AIRFLOW_CONN_KAFKA_PROD"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What Airflow knows: connections by id."""
    known: dict[str, str] = {}
    monkeypatch.setattr(logins, "_look_ups", [*logins._look_ups])
    look_up_with(known.get)
    yield known


def source(**changes: Any) -> Source:
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "connection": "kafka_prod"}
    registry = {"url": "http://registry:8081", "connection": "kafka_prod"}
    data = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT", "security": security}
    return Source.model_validate({**data, "registry": registry, **changes})


FORMS = {
    "JSON": json.dumps({"conn_type": "kafka", "login": "lake", "password": PASSWORD}),
    "URI": f"kafka://lake:{quote(PASSWORD, safe='')}@broker:9092/?security.protocol=SASL_SSL",
    "Kafka's own names in extra": json.dumps(
        {"conn_type": "kafka", "extra": {"sasl.username": "lake", "sasl.password": PASSWORD}}
    ),
    "extra as a text": json.dumps({"extra": json.dumps({"sasl.username": "lake", "sasl.password": PASSWORD})}),
    "extra in a URI": "kafka://?"
    + f"__extra__={quote(json.dumps({'sasl.username': 'lake', 'sasl.password': PASSWORD}), safe='')}",
    "extra fields in a URI": f"kafka://?sasl.username=lake&sasl.password={quote(PASSWORD, safe='')}",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_connection_is_read(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv(VARIABLE, FORMS[form])
    options = librdkafka_options(source())
    assert (options["sasl.username"], options["sasl.password"]) == ("lake", PASSWORD)
    assert 'username="lake"' in spark_options(source())["kafka.sasl.jaas.config"]
    assert SchemaRegistry.of(source()).login == ("lake", PASSWORD)


def test_the_environment_comes_before_airflow(monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]) -> None:
    security = source().security
    assert security is not None
    asked["kafka_prod"] = json.dumps({"login": "of airflow", "password": "p"})
    assert login_of(security) == Login("of airflow", "p")
    monkeypatch.setenv(VARIABLE, json.dumps({"login": "of the environment", "password": "p"}))
    assert login_of(security) == Login("of the environment", "p")


def test_a_changed_password_counts_from_the_next_client_on(asked: dict[str, str]) -> None:
    for password in ("one", "two"):
        asked["kafka_prod"] = json.dumps({"login": "lake", "password": password})
        assert librdkafka_options(source())["sasl.password"] == password


def test_an_unknown_connection_is_an_error_that_says_where_to_add_it() -> None:
    with pytest.raises(RetryableError, match=f"connection kafka_prod is not known.*Admin, Connections.*{VARIABLE}"):
        librdkafka_options(source())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hunter2", "neither"),
        ("{hunter2", "neither"),
        ("[1]", "neither"),
        ("kafka://[hunter2", "neither"),
        (json.dumps({"login": "hunter2"}), "no password"),
        (json.dumps({"password": "hunter2"}), "no login"),
        (json.dumps({"login": "hunter2", "extra": "{hunter2"}), "neither"),
        (json.dumps({"login": {"hunter2": 1}}), "no password"),
    ],
)
def test_a_connection_without_a_login_is_an_error_that_quotes_nothing(
    asked: dict[str, str], text: str, found: str
) -> None:
    asked["kafka_prod"] = text
    with pytest.raises(TerminalError) as caught:
        librdkafka_options(source())
    assert caught.value.found == found
    error: LakemarkError = caught.value
    assert "hunter2" not in error.in_full
    assert error.__cause__ is None
