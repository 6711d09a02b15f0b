"""A server that takes connections, and never answers."""

from __future__ import annotations

import socket


def silent_server() -> tuple[socket.socket, str]:
    """Returns its socket, and its address (host:port). It listens as long as somebody holds the socket."""
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"127.0.0.1:{server.getsockname()[1]}"
