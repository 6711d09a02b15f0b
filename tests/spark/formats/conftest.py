"""One session on the Spark server, and one schema registry, for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from tests.conftest import world_in
from tests.support.schema_registry import RegistryServer, schema_registry


@pytest.fixture(scope="package")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world = world_in(tmp_path_factory.mktemp("formats"), stack)
    with world.session() as session:
        yield session


@pytest.fixture(scope="package")
def registry(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with schema_registry(stack.settings, tmp_path_factory.mktemp("registry")) as server:
        yield server
