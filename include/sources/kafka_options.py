"""The options of clients that connect to a pipeline's Kafka: the same connection for librdkafka and for Spark."""

from __future__ import annotations

from typing import Protocol

from include.pipeline_file import Security, Source
from include.sources.logins import login_of

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Brokers(Protocol):
    """Where brokers are, and how to log in there."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def security(self) -> Security | None: ...


def librdkafka_options(source: Brokers) -> dict[str, str]:
    """Options for confluent-kafka's clients. They hold the password: never log them. Raises as `login_of`."""
    options = {"bootstrap.servers": source.bootstrap_servers}
    if (security := source.security) is None:
        return options
    options["security.protocol"] = security.protocol
    if security.ca_file is not None:
        options["ssl.ca.location"] = security.ca_file
    if security.mechanism is not None and (login := login_of(security)) is not None:
        options["sasl.mechanism"] = security.mechanism
        options["sasl.username"], options["sasl.password"] = login
    return options


def spark_options(source: Source) -> dict[str, str]:
    """Options for Spark's Kafka source. In its UI and event log, Spark itself redacts values that name a password.
    Raises as `login_of`."""
    options = {"kafka.bootstrap.servers": source.bootstrap_servers}
    if (security := source.security) is None:
        return options
    options["kafka.security.protocol"] = security.protocol
    if security.ca_file is not None:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": security.ca_file}
    if security.mechanism is not None and (login := login_of(security)) is not None:
        module = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
        user, password = map(_quoted, login)
        options["kafka.sasl.mechanism"] = security.mechanism
        options["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module}LoginModule required username={user} password={password};"
        )
    return options


def _quoted(text: str) -> str:
    """Quotes a text for java.io.StreamTokenizer, with which Kafka reads JAAS. A line end that is not escaped would end
    the text, and Kafka's error would show what follows."""
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'
