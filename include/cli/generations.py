"""How commands show the beginning of a generation."""

from __future__ import annotations

from collections.abc import Iterator

from include.protocol.ledger_events import GenerationStarted


def generation_lines(started: GenerationStarted) -> Iterator[str]:
    """How a generation begins, as lines for people."""
    yield f"generation {started.generation} begins ({started.origin}): {started.reason}"
    for tp, offset in sorted(started.start_offsets.items()):
        yield f"  {tp} from offset {offset}"
    for lost in started.skipped:
        yield f"  {lost} is given up: no batch will ever read these {lost.width:,} offsets"
