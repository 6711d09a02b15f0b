from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
import requests

from include.protocol.errors import RetryableError
from include.sources.schema_registry import NoSchema, SchemaRegistry


@pytest.mark.parametrize("number", [2**31, 2**32 - 1])
def test_an_id_that_no_registry_can_have_is_not_asked_for(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A registry's ids are Java's ints. It answers a larger one like a broken request, which is not a 404."""
    monkeypatch.setattr(requests, "get", lambda *_, **__: pytest.fail("asked"))
    registry = SchemaRegistry("http://registry:8081", None, True)
    assert registry.avro(number) == registry.protobuf(number) == NoSchema(f"schema {number} is not in the registry")


def test_an_answer_that_never_ends_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes byte by byte, so that no time limit of a socket passes. A run would hold its slot for ever."""
    monkeypatch.setattr("include.sources.schema_registry._SECONDS_MAX", 0.5)
    told = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not told.wait(0.05):
                    client.sendall(b"x")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        try:
            registry = SchemaRegistry(f"http://127.0.0.1:{server.getsockname()[1]}", None, True)
            with pytest.raises(RetryableError, match="no whole answer in"):
                registry.avro(1)
        finally:
            told.set()
            thread.join()
