"""What tests share: one schema registry for all, and a session on the Spark server for each file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from tests.conftest import world_in
from tests.support.schema_registry import RegistryServer, schema_registry


@pytest.fixture(scope="session")
def registry(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with schema_registry(stack.settings, tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="module")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with world_in(tmp_path_factory.mktemp("session"), stack).session() as session:
        yield session
