"""What stands in for Kafka in these tests."""

from __future__ import annotations

import pytest

from tests.support.batches import source
from tests.support.tables_before import ask


@pytest.fixture
def _kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition of a hundred records."""
    ask(monkeypatch, source({("t", 0): (0, 100)}))
