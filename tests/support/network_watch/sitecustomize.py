"""Loaded by every Python process that has this folder on its path: writes down each foreign host that it turns to.

Python's own audit events tell of every connection and every name that is looked up, whatever library does it.
"""

from __future__ import annotations

import os
import socket
import sys

_OWN = {"", "localhost", "0.0.0.0", "::", "::1", socket.gethostname(), socket.getfqdn()}
_file = os.environ.get("LAKEMARK_TEST_FOREIGN_HOSTS")


def _host_of(event: str, arguments: tuple) -> str | None:
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        return address[0] if isinstance(address, tuple) else None  # else a Unix socket's path
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        return arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
    return None


def _watch(event: str, arguments: tuple) -> None:
    if not event.startswith("socket."):
        return
    host = _host_of(event, arguments)
    if host is None or host in _OWN or host.removeprefix("::ffff:").startswith("127."):
        return
    file = os.open(_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{host} by {' '.join(sys.argv)[:200]}\n".encode())
    os.close(file)


if _file:
    sys.addaudithook(_watch)
