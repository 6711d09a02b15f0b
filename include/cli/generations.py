"""How commands show the beginning of a generation."""

from __future__ import annotations

from collections.abc import Iterator

from include.control.sink_decisions import gets_again
from include.pipeline_file import Pipeline
from include.protocol.ledger_events import GenerationStarted


def generation_lines(started: GenerationStarted, pipeline: Pipeline | None = None) -> Iterator[str]:
    """How a generation begins, as lines for people. Args: pipeline: whose sinks get what it brings; None: nothing of it
    concerns them."""
    yield f"generation {started.generation} begins ({started.origin}): {started.reason}"
    for tp, offset in sorted(started.start_offsets.items()):
        yield f"  {tp} from offset {offset}"
    for lost in started.skipped:
        yield f"  {lost} is given up: no batch will ever read these {lost.width:,} offsets"
    for name, gets in gets_again(pipeline, started.deliver).items() if pipeline is not None else ():
        yield f"  sink {name}: {gets}"
