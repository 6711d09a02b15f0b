"""A login is written so that Kafka reads it back as it is. Kafka shows what it does not understand."""

from __future__ import annotations

import pytest

from include.pipeline_file import Source
from include.sources.kafka_options import spark_options

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def texts_of(jaas: str) -> list[str]:
    """What stands between quotes, as java.io.StreamTokenizer reads it (JDK 17): a line's end ends it, too."""
    found, rest = [], iter(jaas)
    for character in rest:
        if character != '"':
            continue
        text = ""
        for inner in rest:
            assert inner not in "\n\r", "the text ends here, and what follows is shown"
            if inner == '"':
                break
            if inner == "\\":
                escaped = next(rest)
                assert not escaped.isdigit(), "a number in octal"
                inner = _ESCAPES.get(escaped, escaped)
            text += inner
        found.append(text)
    return found


@pytest.mark.parametrize(
    "password",
    ["plain", 'a"b', "a\\b", "a\\nb", "first\nTOPSECRET rest", "a\r\nb", "a\tb\0\x0bc", "\\101", "é ß 🙂;'=", '\\"'],
)
def test_a_password_is_read_back_as_it_is(password: str) -> None:
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": "u\\n", "password": password}
    source = Source.model_validate(
        {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT", "security": security}
    )
    jaas = spark_options(source)["kafka.sasl.jaas.config"]
    assert texts_of(jaas) == ["u\\n", password]
    assert jaas.endswith('";')
