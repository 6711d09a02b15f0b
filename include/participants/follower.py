"""A follower: a system after the commit point. What a pipeline's batches commit is delivered to it, commit by commit.

It needs no fence. Whatever the point's log holds has landed, and a delivery takes effect only where the one before it
has left the system (`include/delivery/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from include.pipeline_file import Pipeline
from include.pipeline_file.sinks import Sink
from include.protocol.guarantees import Level


@dataclass(frozen=True)
class Follower:
    """One system that follows the point's log. It keeps its own progress."""

    name: str  # in findings and reports; the same for ever
    sink: str  # in the pipeline file
    in_words: str  # for people
    level: Level  # how often each commit takes effect there
    because: str  # why, for people


def sinks(pipeline: Pipeline) -> Iterator[Follower]:
    """The sinks of the pipeline file."""
    for name, sink in pipeline.sinks.items():
        in_words = f"sink {name}, {sink.system} {sink.place.in_words}"
        yield Follower(f"sink {name}", name, in_words, level=sink.level, because=_because(pipeline, name, sink))


def _because(pipeline: Pipeline, name: str, sink: Sink) -> str:
    if sink.mode == "two_phase":
        readers = "; readers of its binary log see rows that may be rolled back later" if sink.mysql is not None else ""
        pause = f"`lakemark sinks pause {pipeline.name} {name} --reason ...`"
        return (
            "its transaction is prepared before the target's commit and ended as that says, by whoever comes next. It "
            f"costs: every batch waits for the sink, one that is away stops the pipeline ({pause} lets it go on), and "
            f"rows that a batch changes stay locked there until somebody ends what it has prepared{readers}"
        )
    if sink.mode == "upsert":
        return (
            "rows by primary key, then the progress: a delivery that is killed in between comes again, and changes "
            "nothing; readers may see a part of it"
        )
    of = "the target" if sink.route is None else sink.route
    match sink.guarantee:
        case "exactly_once":
            readers = "; readers must be read_committed: others see records of aborted transactions"
            return (
                f"each commit of {of} in one transaction with its progress, which is compared first"
                f"{readers if sink.kafka is not None else ''}"
            )
        case "at_least_once":
            return f"each commit of {of}, then its progress: a delivery that is killed in between comes again"
        case "at_most_once":
            return f"the progress first, then the commit of {of}: a delivery that is killed in between is lost"
