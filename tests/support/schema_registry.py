"""A real schema registry of Confluent's API: Apicurio Registry, from its pinned distribution."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from include.installation.jars import jar_paths
from include.installation.java import find_java
from include.installation.stack import free_port
from include.settings import Settings
from tests.support.archives import unpack
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class RegistryServer:
    url: str

    def register(
        self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None, kind: str = "AVRO"
    ) -> int:
        """Registers a schema (data for Avro, a text for Protobuf); returns the id that its records carry."""
        text = schema if kind == "PROTOBUF" else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": references or []}
        answer = requests.post(f"{self.url}/subjects/{subject}/versions", json=body, timeout=30)
        answer.raise_for_status()
        return int(answer.json()["id"])


@contextmanager
def schema_registry(settings: Settings, folder: Path) -> Iterator[RegistryServer]:
    """In memory; gone at the end. It needs a newer Java than Spark does: the wheel's."""
    [distribution] = jar_paths(settings.jars, "registry")
    with tarfile.open(distribution) as archive:
        unpack(archive, folder)
    java = find_java("bundled", settings.home / "java")
    port = free_port(18081)
    command = [str(java.binary), "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    command += ["-Dquarkus.management.host=127.0.0.1", f"-Dquarkus.management.port={free_port(19000)}"]
    command += ["-jar", "quarkus-run.jar"]
    server = RegistryServer(f"http://127.0.0.1:{port}/apis/ccompat/v7")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        try:
            return requests.get(f"{server.url}/subjects", timeout=5).ok
        except requests.RequestException:
            return False

    try:
        wait_until(answers, seconds=120)
        yield server
    finally:
        process.kill()
        process.wait()
