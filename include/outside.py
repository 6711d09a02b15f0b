"""Says while this process waits for another system: a broker, a schema registry, a sink's database.

So whoever watches the process can tell a wait from work. A group gives the place of a turn that only waits to another
member (`include.protocol.draining`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listen = Callable[[str | None], None]
_LISTENER: ContextVar[Listen | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listen: Listen) -> Iterator[None]:
    """Lets `listen` know of every wait as long as the context lasts: it gets the system's name when a wait begins, and
    None when it is over."""
    before = _LISTENER.set(listen)
    try:
        yield
    finally:
        _LISTENER.reset(before)


@contextmanager
def asking(system: str) -> Iterator[None]:
    """What is done in this context waits for a system. Args: system: in words, for a person."""
    listen = _LISTENER.get()
    if listen is None:
        yield
        return
    listen(system)
    try:
        yield
    finally:
        listen(None)
