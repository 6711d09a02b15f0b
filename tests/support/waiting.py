"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(ready: Callable[[], T], seconds: float = 60.0, pause: float = 0.1) -> T:
    """Polls until `ready` returns something true. Args: pause: seconds between two polls, longer for a dear one."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(pause)
    return found
