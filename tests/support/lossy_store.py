"""A proxy before an S3-compatible server: for chosen requests it does what a network does on a bad day."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["answer lost", "answered 500", "answered 503", "answered 409", "never arrives", "body cut"]
Lack = Literal["conditions", "metadata", "listings", "the header", "rights"]  # of a store that no lake can be kept on


class LossyStore(ThreadingHTTPServer):
    """Args: server: its address. Faults happen to requests whose method and path match, `times` for each path."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        self.target = urlsplit(server)
        self.fault: Fault | None = None
        self.pattern, self.times = re.compile("$^"), 0
        self.lack: Lack | None = None
        self.seen: Counter[str] = Counter()  # requests by method and path
        self._done: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def breaks(self, pattern: str, fault: Fault, times: int = 1) -> None:
        self.pattern, self.fault, self.times = re.compile(pattern), fault, times
        self._done.clear()
        self.seen.clear()

    def fault_of(self, request: str) -> Fault | None:
        with self._lock:
            self.seen[request] += 1
            if self.fault is None or not self.pattern.search(request) or self._done[request] >= self.times:
                return None
            self._done[request] += 1
            return self.fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyStore

    def log_message(self, *told: object) -> None:
        pass

    def _handle(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.fault_of(f"{self.command} {urlsplit(self.path).path}")
        if fault == "never arrives":
            self._hang_up()
            return
        status, headers, content = (409, [], b"") if fault == "answered 409" else self._asked(body)
        if fault == "answer lost":
            self._hang_up()
            return
        if fault in ("answered 500", "answered 503"):
            status, content = int(fault[-3:]), b"<Error><Code>InternalError</Code></Error>"
        status, headers, content = self._as_lacking(status, headers, content)
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        of_head = next((value for name, value in headers if name.lower() == "content-length"), "0")
        self.send_header("Content-Length", of_head if self.command == "HEAD" else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if fault == "body cut" else content)
        if fault == "body cut":
            self._hang_up()

    def _as_lacking(
        self, status: int, headers: list[tuple[str, str]], content: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """The answer of a store that lacks what a lake needs."""
        creates = self.command == "PUT" and "If-None-Match" in self.headers
        match self.server.lack:
            case "conditions" if creates:
                return 200, [], b""
            case "the header" if creates:
                return 501, [], b"<Error><Code>NotImplemented</Code><Message>A header you provided</Message></Error>"
            case "rights" if self.command == "PUT":
                return 403, [], b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            case "metadata":
                return status, [(n, v) for n, v in headers if not n.lower().startswith("x-amz-meta-")], content
            case "listings" if "list-type=2" in self.path:
                return status, headers, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            case _:
                return status, headers, content

    def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
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


@contextmanager
def lossy_store(server: str) -> Iterator[LossyStore]:
    proxy = LossyStore(server)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
