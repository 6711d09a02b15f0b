"""What people decide about a pipeline's sinks, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import replace

from include.lake.ledger import Ledger
from include.pipeline_file import Pipeline
from include.pipeline_file.in_words import near
from include.pipeline_file.tables import Tables
from include.protocol import deliveries
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import Event
from include.protocol.ledger_state import LedgerState
from include.protocol.sinks import SinkStanding, SinkTold
from include.settings import Settings


def pause(
    settings: Settings, pipeline: Pipeline, name: str, reason: str, by: str, only_new: bool = False
) -> SinkStanding:
    """From now on nothing is delivered to the sink. A delivery that is under way ends as it would. Returns how it
    stands.

    Args:
        only_new: only if nothing is known of the sink yet.
    """
    return _decide(settings, pipeline, name, paused=f"{reason} ({by})", reason=reason, by=by, only_new=only_new)


def resume(settings: Settings, pipeline: Pipeline, name: str, reason: str, by: str) -> SinkStanding:
    """Ends a pause. The next delivery goes on where the last one ended. Returns how the sink stands."""
    return _decide(settings, pipeline, name, paused=None, reason=reason, by=by)


def named_sinks(pipeline: Pipeline, name: str | None) -> tuple[str, ...]:
    """The sink of that name, or all. Raises TerminalError: the pipeline has no such sink, or none at all."""
    if pipeline.sinks and (name is None or name in pipeline.sinks):
        return (name,) if name is not None else tuple(pipeline.sinks)
    names = [*pipeline.sinks]
    raise TerminalError(
        what="there is no such sink",
        where=f"{pipeline.name}, section `sinks` of its file",
        expected=f"one of {', '.join(names)}{near(name or '', names)}" if names else "a sink (docs/sinks.md)",
        found=name or "none",
        action="use one of these names" if names else "write the section, and check it with `lakemark validate`",
    )


def gets_again(pipeline: Pipeline, deliver: str | None) -> dict[str, str]:
    """What each sink gets of rows that are written again and of records that are read again, in words. Args: deliver:
    what a person has decided, as `GenerationStarted` has it."""
    return {name: _gets_again(sink.what == "changes", deliver) for name, sink in pipeline.sinks.items()}


def _gets_again(is_of_changes: bool, deliver: str | None) -> str:
    match deliver:
        case None if is_of_changes:
            return "gets each change that is read again, once more, and nothing of rows that come back"
        case None:
            return "gets the rows that change by it"
        case deliveries.SKIP:
            return "keeps what it has, and gets nothing of what is read again, up to where the pipeline stands now"
    return "its deliveries stop there until you decide"


def left_behind(settings: Settings, pipeline: Pipeline) -> tuple[str, ...]:
    """What a person has to know of sinks that were taken out of the file: only their sections say how to reach them."""
    name, found = pipeline.name, Ledger(Tables.of(settings, pipeline).ledger).recent().sinks
    return tuple(
        f"the sink {sink}, which is no longer in the file, may keep a prepared transaction with its locks: put its "
        f"section back, run `lakemark sinks pause {name} {sink} --reason ...` and `lakemark sinks deliver {name} "
        f"{sink}`, which ends it, and then take the section out"
        for sink, standing in found.items()
        if sink not in pipeline.sinks and standing.prepares and standing.paused is None
    )


def _decide(
    settings: Settings, pipeline: Pipeline, name: str, paused: str | None, reason: str, by: str, only_new: bool = False
) -> SinkStanding:
    def decide(state: LedgerState) -> list[Event]:
        if only_new and name in state.sinks:
            return []
        standing = replace(state.sinks.get(name, SinkStanding()), paused=paused)
        return [SinkTold(state.generation, name, standing, told_by=by, reason=reason)]

    return Ledger(Tables.of(settings, pipeline).ledger).append(decide, about=None).sinks[name]
