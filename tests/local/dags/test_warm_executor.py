"""The executor whose workers begin with everything imported."""

from __future__ import annotations

import importlib

import pytest
from lakemark_warm_executor import USED_BY_TASKS


@pytest.mark.parametrize("name", USED_BY_TASKS)
def test_there_is_all_that_it_imports(name: str) -> None:
    """If there were not, the workers would begin without it, and only a log would say so."""
    importlib.import_module(name)
