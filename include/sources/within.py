"""Bounds the time of a call that may never return: one to a server that sends a byte every few seconds, say, where time
limits of a socket never pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns. One that lasts longer goes on in a thread of its own, which ends with the process.

    Raises:
        TimeoutError: it has not ended in time. And what the call raises.
    """
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:  # it is raised where somebody waits for it
            ended.set_exception(error)

    threading.Thread(target=run, name="lakemark-within", daemon=True).start()
    return ended.result(seconds)
