"""Asks a schema registry of Confluent's API for the schemas that records were written with.

Source: Confluent's Schema Registry API reference, "Schemas" and "Subjects".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import requests

from include.avro_schema import AvroSchema
from include.pipeline_file import Source
from include.protobuf_schema import NotProtobuf, ProtobufSchema
from include.protocol.errors import RetryableError, TerminalError

_SECONDS = 10.0
_ACCEPT = {"Accept": "application/vnd.schemaregistry.v1+json"}


@dataclass(frozen=True)
class SchemaRegistry:
    url: str
    login: tuple[str, str] | None
    trusted: str | bool  # PEM file, or the system's certificates

    @classmethod
    def of(cls, source: Source) -> Self:
        registry = source.registry
        assert registry is not None, "the pipeline file was checked"
        password = registry.password.get_secret_value() if registry.password else ""
        login = (registry.username, password) if registry.username else None
        return cls(registry.url.rstrip("/"), login, registry.ca_file or True)

    def avro(self, schema_id: int) -> AvroSchema | None:
        """The Avro schema of that id, with those that it refers to; None if the registry has none.

        Raises:
            RetryableError: it does not answer. TerminalError: it does not let us in, or the schema is of another kind.
        """
        found = self._of_kind("AVRO", schema_id)
        return found and AvroSchema.of(found["schema"], list(self._referred(found).values()))

    def protobuf(self, schema_id: int) -> ProtobufSchema | None:
        """The same of Protobuf."""
        found = self._of_kind("PROTOBUF", schema_id)
        if found is None:
            return None
        try:
            return ProtobufSchema.of(found["schema"], self._referred(found))
        except NotProtobuf as error:
            raise self._refused(f"/schemas/ids/{schema_id}", "a schema that protoc accepts", str(error)) from error

    def _of_kind(self, kind: str, schema_id: int) -> dict[str, Any] | None:
        found = self._get(f"/schemas/ids/{schema_id}")
        if found is not None and found.get("schemaType", "AVRO") != kind:
            raise self._refused(f"/schemas/ids/{schema_id}", f"a schema of type {kind}", found["schemaType"])
        return found

    def _referred(self, found: dict[str, Any]) -> dict[str, str]:
        """The texts of the schemas that one refers to by name, those first that others refer to."""
        texts: dict[str, str] = {}
        for reference in found.get("references") or ():
            path = f"/subjects/{reference['subject']}/versions/{reference['version']}"
            other = self._get(path)
            if other is None:
                raise self._refused(path, "the schema that another one refers to", "none")
            texts |= {**self._referred(other), reference["name"]: other["schema"]}
        return texts

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            answer = requests.get(
                self.url + path, headers=_ACCEPT, auth=self.login, verify=self.trusted, timeout=_SECONDS
            )
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
            action="see whether it is up; nothing landed, and the next attempt asks again",
        )

    def _refused(self, path: str, expected: str, found: str) -> TerminalError:
        return TerminalError(
            what="the schema registry has not what is needed",
            where=self.url + path,
            expected=expected,
            found=found,
            action="mend `source.registry` in the pipeline file, or the registry; nothing landed",
        )
