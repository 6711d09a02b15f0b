"""Section `source`: where records come from, and how they are encoded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Annotated, Literal

import regex  # Python's own `re` cannot be told when to give up
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.debezium import UNAVAILABLE
from include.pipeline_file.schema_ddl import Column, parse_ddl
from include.pipeline_file.section import (
    CONNECTION,
    FILE,
    HOURS_MAX,
    SERVERS,
    URL,
    Condition,
    Section,
    only_address,
    refuse_unreadable,
    refused,
)
from include.pipeline_file.variables import FromEnvironment, SecretVariable, Variable
from include.protocol.errors import TerminalError

_METADATA = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "key": "STRING",
    "headers": "ARRAY<STRUCT<key: STRING, value: STRING>>",  # in Kafka's order; a name may occur more than once
}

ConnectionId = Annotated[str, Field(pattern=CONNECTION)]
_MATCH_SECONDS_MAX = 1.0
_REPEATED_MAX = 10_000  # to compile more takes much memory


def _metadata_type(of: str) -> str | None:
    """The type of one of Kafka's own fields, or of the last header with a name; None if it is neither."""
    return "STRING" if re.fullmatch(r"headers\..+", of) else _METADATA.get(of)


class Limits(Section):
    records_per_batch_max: int = Field(
        default=500_000, ge=1, description="The most offsets that one batch spans, over all partitions."
    )
    seconds_per_batch: float | None = Field(
        default=None,
        gt=0,
        le=HOURS_MAX,
        description="How long the attempt of a batch should take. A batch spans as many offsets as fit into that time "
        "at the pace of the last batches, but never more than records_per_batch_max; null: only that limit counts.",
    )

    @property
    def in_words(self) -> str:
        at_most = f"at most {self.records_per_batch_max:,} offsets"
        if self.seconds_per_batch is None:
            return at_most
        return f"{at_most} (and no more than the last batches show to take {self.seconds_per_batch:g} s)"


class Security(Section):
    """How to log in at the brokers. The password is never in the file: the environment has it, or Airflow."""

    protocol: Annotated[Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], FromEnvironment()] = Field(
        description="As Kafka names it."
    )
    mechanism: Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], FromEnvironment()] | None = Field(
        default=None, description="For SASL."
    )
    username: Variable | None = Field(default=None, description="For SASL.")
    password: SecretVariable | None = Field(default=None, description="For SASL: `${NAME}`, an environment variable.")
    connection: ConnectionId | None = Field(
        default=None, description="Instead of these two, for SASL: an Airflow connection."
    )
    ca_file: Variable | None = Field(default=None, description="PEM file with the certificates to trust.")

    _local = field_validator("ca_file")(only_address(FILE, "the path of a file"))


class Debezium(Section):
    """What the numbers in an envelope mean if its records carry no schema. If they do, the schema says it."""

    timestamps: Literal["millis", "micros", "nanos"] = Field(
        default="micros", description="Since 1970; PostgreSQL's default is micros, MySQL's DATETIME(0) has millis."
    )
    decimals: Literal["precise", "string"] = Field(
        default="precise", description="The connector's decimal.handling.mode; `string` also reads `double`."
    )
    unavailable: str = Field(
        default=UNAVAILABLE, min_length=1, description="The connector's unavailable.value.placeholder."
    )


class Registry(Section):
    """A schema registry with Confluent's API. The password is never in the file."""

    url: Variable = Field(description="Such as `http://registry:8081`; the login has its own fields.")
    username: Variable | None = Field(default=None, description="For HTTP's basic authentication.")
    password: SecretVariable | None = Field(default=None, description="`${NAME}`, an environment variable.")
    connection: ConnectionId | None = Field(default=None, description="Instead of these two: an Airflow connection.")
    ca_file: Variable | None = Field(default=None, description="PEM file with the certificates to trust.")

    _plain = field_validator("url")(only_address(URL, "http://HOST:PORT/PATH, or https"))
    _local = field_validator("ca_file")(only_address(FILE, "the path of a file"))


class Csv(Section):
    """The form of a line of CSV. Its fields are the columns, in order."""

    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Between fields.")
    quote: str = Field(
        default='"', min_length=1, max_length=1, description="Around a field that contains one of these."
    )
    escape: str = Field(default="\\", min_length=1, max_length=1, description="Before a quote within quotes.")
    null: str = Field(default="", description="What stands for null.")


Format = Literal["json", "debezium-json", "avro", "debezium-avro", "protobuf", "csv", "string"]


class Source(Section):
    bootstrap_servers: Variable = Field(min_length=1, description="host:port of the brokers, comma separated.")
    security: Security | None = Field(default=None, description="How to log in; null for plain listeners.")
    topics: tuple[str, ...] = Field(default=(), max_length=1_000, description="Topics that are read as one source.")
    topics_pattern: str | None = Field(
        default=None,
        max_length=1_000,
        description="Instead: a regular expression for their whole names. A topic that is created later is read from "
        "its first record on.",
    )
    format: Format = Field(
        default="json",
        description="How a record's value is encoded. Avro and Protobuf are in Confluent's form: the registry's id "
        "comes first.",
    )
    debezium: Debezium = Field(default=Debezium(), description="For format debezium-json (Avro's schema says it).")
    csv: Csv = Field(default=Csv(), description="For format csv.")
    registry: Registry | None = Field(default=None, description="Where the schemas of Avro and Protobuf are.")
    key: Literal["json", "string", "avro"] | None = Field(
        default=None,
        description="How a record's key is encoded, for key columns that its value lacks. json and avro: fields with "
        "these names; string: the only key column; null: keys are in the value.",
    )
    metadata: Mapping[str, str] = Field(
        default={},
        max_length=100,
        description="More columns, from Kafka's own fields: {COLUMN: topic | partition | offset | timestamp | key | "
        "headers | headers.NAME}.",
    )
    schema_: str = Field(
        alias="schema", description="Columns of the value as Spark DDL: `id BIGINT, name STRING, at TIMESTAMP`."
    )
    timestamps: Literal["seconds", "millis", "micros", "nanos"] | None = Field(
        default=None,
        description="The unit of a number that stands for a TIMESTAMP, since 1970; null: such a record is quarantined. "
        "(For Debezium: `debezium.timestamps`.)",
    )
    start: Literal["earliest", "latest"] = Field(default="earliest", description="Where the very first batch begins.")
    filter: Condition | None = Field(
        default=None, description="SQL condition on the columns; records for which it is not true are left out."
    )
    limits: Limits = Limits()

    @field_validator("topics")
    @classmethod
    def _topics_differ(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(topics)) != len(topics):
            raise PydanticCustomError("topics", "every topic once")
        return topics

    @field_validator("topics_pattern")
    @classmethod
    def _pattern_compiles(cls, pattern: str | None) -> str | None:
        counts = [int(count) for count in re.findall(r"[{,](\d{1,9})", pattern or "")]
        if prod(max(1, count) for count in counts) > _REPEATED_MAX or re.search(r"\{[^}]*\d{10}", pattern or ""):
            problem = f"at most {_REPEATED_MAX:,} repetitions in all"
            raise PydanticCustomError("pattern", "a regular expression with {problem}", {"problem": problem})
        try:
            re.compile(pattern or "")  # which knows no recursion
            regex.compile(pattern or "")
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise PydanticCustomError("pattern", "a regular expression: {problem}", {"problem": str(error)}) from error
        return pattern

    _readable = field_validator("schema_")(refuse_unreadable)
    _plain = field_validator("bootstrap_servers")(only_address(SERVERS, "HOST:PORT, comma separated"))

    @field_validator("metadata")
    @classmethod
    def _metadata_is_kafkas(cls, metadata: Mapping[str, str]) -> Mapping[str, str]:
        for name, of in metadata.items():
            if _metadata_type(of) is None:
                allowed = ", ".join((*_METADATA, "headers.NAME"))
                raise refused(f"source.metadata.{name}", f"one of {allowed}", of)
        return metadata

    def reads(self, topic: str) -> bool:
        """Whether the source reads a topic. Kafka's own topics (`__consumer_offsets`) match no pattern.

        Raises:
            TerminalError: to match the pattern takes too long.
        """
        if self.topics_pattern is None:
            return topic in self.topics
        if topic.startswith("__"):
            return False
        try:
            return regex.fullmatch(self.topics_pattern, topic, timeout=_MATCH_SECONDS_MAX) is not None
        except TimeoutError as error:
            raise TerminalError(
                what="the pattern of topics cannot be matched in a reasonable time",
                where=f"source.topics_pattern, topic {topic}",
                expected=f"an answer within {_MATCH_SECONDS_MAX:g} s",
                found="none: repetitions of alternatives, like (a|aa)+, have too many ways to match",
                action="write a simpler pattern, or name the topics",
            ) from error

    @property
    def topics_in_words(self) -> str:
        return ", ".join(self.topics) or f"topics that match {self.topics_pattern}"

    @property
    def is_debezium(self) -> bool:
        return self.format.startswith("debezium-")

    @property
    def names_fields(self) -> bool:
        """Whether a record says which columns it has, so that one may be absent."""
        return self.format not in ("csv", "string")

    @property
    def wants_headers(self) -> bool:
        return any(of.split(".")[0] == "headers" for of in self.metadata.values())

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns that a record's value (or its key) holds."""
        return parse_ddl(self.schema_)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The target's columns without a transform: those of the value, and those for Kafka's own fields."""
        return (*self.value_columns, *(Column(n, _metadata_type(of) or "") for n, of in self.metadata.items()))
