"""A link to a server that may lose what the server answers, and then the connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class LossyLink:
    """A proxy on a port of its own.

    Args:
        to: the server's port. loses: the number of the answer (a part of what the server sends) that is lost, counted
            from now on; 0: none.
    """

    to: int
    listener: socket.socket = field(repr=False)
    loses: int = 0
    lost: int = 0  # so many, so far
    _open: list[socket.socket] = field(default_factory=list, repr=False)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def run(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self.listener.accept()
                with suppress(OSError):
                    server = socket.create_connection(("127.0.0.1", self.to), 5)
                    self._open += [client, server]
                    for one, other, answers in ((client, server, False), (server, client, True)):
                        threading.Thread(target=self._pass, args=(one, other, answers), daemon=True).start()
                    continue
                client.close()

    def _pass(self, one: socket.socket, other: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 16):
                if answers and self.loses:
                    self.loses -= 1
                    if self.loses == 0:
                        self.lost += 1
                        break
                other.sendall(part)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def lossy_link(to: int) -> Iterator[LossyLink]:
    """Args: to: the server's port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = LossyLink(to, listener)
        threading.Thread(target=link.run, daemon=True).start()
        yield link
