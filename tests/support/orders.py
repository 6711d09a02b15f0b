"""Changes of a small table."""

from __future__ import annotations

from typing import Any


def orders(count: int, seq: int) -> list[dict[str, Any]]:
    return [{"id": i, "seq": seq, "name": f"n{i}", "op": "u"} for i in range(count)]
