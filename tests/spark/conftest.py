"""One schema registry for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.installation.stack import Stack
from tests.support.schema_registry import RegistryServer, schema_registry


@pytest.fixture(scope="session")
def registry(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with schema_registry(stack.settings, tmp_path_factory.mktemp("registry")) as server:
        yield server
