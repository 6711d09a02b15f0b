"""A lake on an S3-compatible store as contenders see it: behind a proxy that adds latency to requests, and counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import requests

from include.installation.stack import Stack
from tests.support.world import World


@dataclass(frozen=True)
class OnS3:
    """See `Store`."""

    world: World
    proxy: str

    def requests(self) -> dict[str, int]:
        told: dict[str, int] = requests.get(f"{self.proxy}/__seen", timeout=30).json()
        return told


@contextmanager
def slow_store(stack: Stack, latency_ms: float) -> Iterator[str]:
    """A proxy before the stack's store, as a process: this one and Spark reach the store by it alone."""
    command = [sys.executable, "-m", "tests.support.lossy_store", stack.store.url, str(latency_ms / 1000)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        os.environ.update({**stack.store.environment, "AWS_ENDPOINT_URL_S3": url})
        try:
            yield url
        finally:
            process.kill()
