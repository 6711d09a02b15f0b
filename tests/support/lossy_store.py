"""A proxy before an S3-compatible server: for chosen requests it does what a network, or a busy store, does on a bad
day. `python -m tests.support.lossy_store URL SECONDS` runs one as a process, which makes every request so much slower,
and prints its own URL.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, get_args
from urllib.parse import urlsplit

from include.protocol.json_data import JsonObject
from tests.support.least_policy import actions, allows

Fault = Literal[
    "answer lost",  # all of these: after the store has done it
    "answered 500",
    "body cut",
    "delayed",
    "never arrives",  # all of these: the store hears nothing of it
    "answered 503",
    "answered 409",
    "answered 412",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
OF_CONDITIONS: tuple[Fault, ...] = ("answered 409", "answered 412")
Lack = Literal["conditions", "metadata", "listings", "the header", "rights"]  # of a store that no lake can be kept on
Answer = tuple[int, list[tuple[str, str]], bytes]
_CODES = {
    "answered 500": (500, "InternalError"),
    "answered 503": (503, "SlowDown"),
    "answered 409": (409, "ConditionalRequestConflict"),
    "answered 412": (412, "PreconditionFailed"),
}
_DELAY_SECONDS = 2.0


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    is_conditional: bool
    is_listing: bool

    @property
    def kind(self) -> str:
        return "LIST" if self.is_listing else self.method

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Held:
    """A request that waits, or will."""

    pattern: str
    reached: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)


class LossyStore(ThreadingHTTPServer):
    """Args: server: its address. slower: seconds that it adds to every request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, server: str, slower: float = 0.0) -> None:
        self.target, self.slower = urlsplit(server), slower
        self.lack: Lack | None = None
        self.refusal: tuple[int, str] | None = None  # status and code that every request gets; None: none
        self.policy: JsonObject | None = None  # of AWS: what it allows; None: all
        self.not_allowed: set[tuple[str, str]] = set()  # what it has refused by it: actions and resources
        self.seen: Counter[str] = Counter()  # requests by method and path
        self.kinds: Counter[str] = Counter()  # by method, listings apart
        self.dealt: Counter[str] = Counter()  # faults by kind
        self._of: Callable[[Asked], Fault | None] = lambda asked: None
        self._held: list[Held] = []
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Counted)

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever has asked went away, or the store did: that is what this is for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def breaks(self, pattern: str, fault: Fault, times: int = 1) -> None:
        """From here on the fault happens to requests whose method and path match, `times` for each path."""
        done: Counter[str] = Counter()

        def fault_of(asked: Asked) -> Fault | None:
            if not re.search(pattern, str(asked)) or done[str(asked)] >= times:
                return None
            done[str(asked)] += 1
            return fault

        self.seen.clear()
        self._of = fault_of

    def deals(self, seed: int, share: float) -> None:
        """From here on it deals faults of all kinds to a share of all requests."""
        chance = random.Random(seed)

        def fault_of(asked: Asked) -> Fault | None:
            fault = chance.choice(FAULTS) if chance.random() < share else None
            return None if fault in OF_CONDITIONS and not asked.is_conditional else fault

        self._of = fault_of

    def holds(self, pattern: str) -> Held:
        """From here on the first request whose method and path match waits at the proxy until it is let go."""
        held = Held(pattern)
        self._held.append(held)
        return held

    def wait_if_held(self, asked: Asked) -> None:
        with self._lock:
            found = next((h for h in self._held if re.search(h.pattern, str(asked)) and not h.reached.is_set()), None)
            if found is not None:
                found.reached.set()
        if found is not None:
            found.gone.wait()

    def is_good(self) -> None:
        """From here on nothing happens to any request."""
        self._of, self.lack, self.refusal, self.policy = (lambda asked: None), None, None, None

    def fault_of(self, asked: Asked) -> Fault | None:
        with self._lock:
            self.seen[str(asked)] += 1
            self.kinds[asked.kind] += 1
            fault = self._of(asked)
            if fault is not None:
                self.dealt[fault] += 1
            return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LossyStore

    def log_message(self, *told: object) -> None:
        pass

    def _handle(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(
            self.command, urlsplit(self.path).path, "If-None-Match" in self.headers, "list-type=2" in self.path
        )
        self.server.wait_if_held(asked)
        fault = self.server.fault_of(asked)
        time.sleep(self.server.slower)
        match fault:
            case "never arrives":
                self._hang_up()
            case "answer lost":
                self._asked(body)
                self._hang_up()
            case "answered 500":
                self._asked(body)
                self._answer(*_error(*_CODES[fault]))
            case "answered 503" | "answered 409" | "answered 412":
                self._answer(*_error(*_CODES[fault]))
            case "delayed":
                answer = self._asked(body)
                time.sleep(_DELAY_SECONDS)
                self._answer(*answer)
            case _:
                refused = self.server.refusal if self._is_allowed(body) else (403, "AccessDenied")
                answer = _error(*refused) if refused else self._as_lacking(*self._asked(body))
                self._answer(*answer, cut=fault == "body cut")

    def _is_allowed(self, body: bytes) -> bool:
        if self.server.policy is None:
            return True
        needed = actions(self.command, self.path, body, self.headers.get("x-amz-copy-source"))
        refused = {one for one in needed if not allows(self.server.policy, *one)}
        self.server.not_allowed |= refused
        return not refused

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        of_head = next((value for name, value in headers if name.lower() == "content-length"), "0")
        self.send_header("Content-Length", of_head if self.command == "HEAD" else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _as_lacking(self, status: int, headers: list[tuple[str, str]], content: bytes) -> Answer:
        """The answer of a store that lacks what a lake needs."""
        creates = self.command == "PUT" and "If-None-Match" in self.headers
        match self.server.lack:
            case "conditions" if creates:
                return 200, [], b""
            case "the header" if creates:
                return _error(501, "NotImplemented")
            case "rights" if self.command == "PUT":
                return _error(403, "AccessDenied")
            case "metadata":
                return status, [(n, v) for n, v in headers if not n.lower().startswith("x-amz-meta-")], content
            case "listings" if "list-type=2" in self.path:
                return status, headers, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            case _:
                return status, headers, content

    def _asked(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.server.target.netloc, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("expect", "connection"):
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle


class _Counted(_Handler):
    """Tells the requests since it was asked last, by method and kind, at `/__seen`."""

    def _handle(self) -> None:
        if self.path != "/__seen":
            super()._handle()
            return
        told, self.server.kinds = self.server.kinds, Counter()
        self._answer(200, [], json.dumps(told).encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle


def _error(status: int, code: str) -> Answer:
    return status, [], f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


@contextmanager
def lossy_store(server: str, slower: float = 0.0) -> Iterator[LossyStore]:
    proxy = LossyStore(server, slower)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()


if __name__ == "__main__":
    with LossyStore(sys.argv[1], float(sys.argv[2])) as server:
        print(server.url, flush=True)
        server.serve_forever()
