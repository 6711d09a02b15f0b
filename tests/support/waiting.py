"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(ready: Callable[[], T], seconds: float = 60.0) -> T:
    """Polls until `ready` returns something true."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)
    return found
