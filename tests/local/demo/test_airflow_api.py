"""How the demo calls Airflow, from a server that stands in for one whose database is busy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from include.demo.airflow_api import AirflowApi
from include.protocol.errors import RetryableError


class Busy(BaseHTTPRequestHandler):
    """Fails the first call of each kind, after the login."""

    failed: set[str]

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fails = self.path != "/auth/token" and self.command not in self.failed
        self.failed |= {self.command} if fails else set()
        self.send_response(500 if fails else 200)
        body = json.dumps({"access_token": "t", "state": "success", "dag_run_id": "r"}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PATCH = do_POST = answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def api() -> Iterator[AirflowApi]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Busy,), {"failed": set()}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield AirflowApi.login(f"http://127.0.0.1:{server.server_port}", "user", "password")
    server.shutdown()
    server.server_close()


def test_what_may_be_done_twice_is_done_again_if_the_server_fails(api: AirflowApi) -> None:
    assert api.run_state("d", "r") == "success"
    api.unpause("d")


def test_a_run_is_started_once(api: AirflowApi) -> None:
    with pytest.raises(RetryableError, match="status 500"):
        api.trigger("d")
