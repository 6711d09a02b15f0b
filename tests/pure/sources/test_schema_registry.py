from __future__ import annotations

import pytest
import requests

from include.sources.schema_registry import NoSchema, SchemaRegistry


@pytest.mark.parametrize("number", [2**31, 2**32 - 1])
def test_an_id_that_no_registry_can_have_is_not_asked_for(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A registry's ids are Java's ints. It answers a larger one like a broken request, which is not a 404."""
    monkeypatch.setattr(requests, "get", lambda *_, **__: pytest.fail("asked"))
    registry = SchemaRegistry("http://registry:8081", None, True)
    assert registry.avro(number) == registry.protobuf(number) == NoSchema(f"schema {number} is not in the registry")
