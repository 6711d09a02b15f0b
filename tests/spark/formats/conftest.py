"""One session on the Spark server for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from include.installation.stack import Stack
from tests.conftest import world_in


@pytest.fixture(scope="package")
def spark(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    world = world_in(tmp_path_factory.mktemp("formats"), stack)
    with world.session() as session:
        yield session
