"""Asks a schema registry with Confluent's API for the schemas that records were written with.

Source: Confluent's Schema Registry API reference, "Schemas" and "Subjects".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

import requests

from include.outside import asking
from include.pipeline_file import Source
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.json_data import JsonObject
from include.sources.avro_schema import AvroSchema
from include.sources.logins import Login, login_of
from include.sources.protobuf_schema import NotProtobuf, ProtobufSchema
from include.sources.within import within

_SECONDS = 10.0  # between two parts of an answer
_SECONDS_MAX = 30.0  # of a whole answer
_ID_MAX = 2**31 - 1  # ids are Java's ints: a registry answers a larger one with a client error
_ACCEPT = {"Accept": "application/vnd.schemaregistry.v1+json"}


@dataclass(frozen=True)
class NoSchema:
    """A schema id that records name, but with which no record can be read."""

    reason: str


@dataclass(frozen=True)
class SchemaRegistry:
    url: str
    login: Login | None
    trusted: str | bool  # PEM file, or the system's certificates

    @classmethod
    def of(cls, source: Source) -> Self:
        registry = source.registry
        assert registry is not None, "the pipeline file was checked"
        return cls(registry.url.rstrip("/"), login_of(registry), registry.ca_file or True)

    def avro(self, schema_id: int) -> AvroSchema | NoSchema:
        """The Avro schema of that id, with those that it refers to.

        Raises:
            RetryableError: the registry does not answer. TerminalError: it refuses the login.
        """
        found = self._of_kind("AVRO", schema_id)
        if isinstance(found, NoSchema):
            return found
        schema, referred = found
        return AvroSchema.of(schema, list(referred.values()))

    def protobuf(self, schema_id: int) -> ProtobufSchema | NoSchema:
        """As `avro`, for a Protobuf schema."""
        found = self._of_kind("PROTOBUF", schema_id)
        if isinstance(found, NoSchema):
            return found
        try:
            return ProtobufSchema.of(*found)
        except NotProtobuf:
            return NoSchema(f"schema {schema_id} is none that protoc accepts")

    def _of_kind(self, kind: str, schema_id: int) -> tuple[str, dict[str, str]] | NoSchema:
        """The text of a schema, and of those that it refers to."""
        found = self._get(f"/schemas/ids/{schema_id}") if schema_id <= _ID_MAX else None
        if found is None:
            return NoSchema(f"schema {schema_id} is not in the registry")
        is_of = found.get("schemaType", "AVRO")
        if is_of != kind:
            return NoSchema(f"schema {schema_id} is of type {is_of}, not {kind}")
        referred = self._referred(found)
        if referred is None:
            return NoSchema(f"schema {schema_id} refers to one that is not in the registry")
        return found["schema"], referred

    def _referred(self, found: JsonObject) -> dict[str, str] | None:
        """The texts of the schemas that one refers to, by name, the innermost first; None: one is missing."""
        texts: dict[str, str] = {}
        for reference in found.get("references") or ():
            other = self._get(f"/subjects/{reference['subject']}/versions/{reference['version']}")
            beyond = None if other is None else self._referred(other)
            if other is None or beyond is None:
                return None
            texts |= {**beyond, reference["name"]: other["schema"]}
        return texts

    def _get(self, path: str) -> JsonObject | None:
        try:
            with asking(f"the schema registry {self.url}"):
                answer = within(
                    _SECONDS_MAX,
                    lambda: requests.get(
                        self.url + path, headers=_ACCEPT, auth=self.login, verify=self.trusted, timeout=_SECONDS
                    ),
                )
        except TimeoutError as error:
            raise self._no_answer(path, f"no whole answer in {_SECONDS_MAX:.0f} s") from error
        except requests.RequestException as error:
            raise self._no_answer(path, f"{type(error).__name__}: {error}") from error
        if answer.status_code == 404:
            return None
        if answer.status_code in (401, 403):
            raise self._refused(path, "a login that may read schemas", f"HTTP {answer.status_code}")
        try:
            answer.raise_for_status()
            return dict(answer.json())
        except (requests.RequestException, json.JSONDecodeError, TypeError, ValueError) as error:
            raise self._no_answer(path, f"HTTP {answer.status_code}: {answer.text[:200]}") from error

    def _no_answer(self, path: str, found: str) -> RetryableError:
        return RetryableError(
            what="the schema registry does not answer",
            where=self.url + path,
            expected="the schema as JSON",
            found=found,
            action="check that it is up; nothing landed, and the next attempt asks again",
        )

    def _refused(self, path: str, expected: str, found: str) -> TerminalError:
        return TerminalError(
            what="the schema registry refused the request",
            where=self.url + path,
            expected=expected,
            found=found,
            action="fix `source.registry` in the pipeline file, or the registry; nothing landed",
        )
