"""The facts that a job reports: progress while it works, and results."""

from __future__ import annotations

from collections.abc import Callable

from include.protocol.json_data import JsonObject

SayFact = Callable[[JsonObject], None]
