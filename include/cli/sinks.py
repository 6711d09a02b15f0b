"""`lakemark sinks create | list | status | pending | deliver | test | pause | resume | skip`: the systems that get what
lands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from include.cli.output import (
    Command,
    Commands,
    a_count,
    add_command,
    add_command_for_all,
    add_reason,
    argument,
    named_pipeline,
    named_pipelines,
    report,
    say,
    who,
)
from include.pipeline_file import Pipeline
from include.protocol.json_data import JsonObject
from include.settings import Settings

if TYPE_CHECKING:
    from include.delivery.contract import Pending
    from include.monitoring.sinks import SinkFacts
    from include.protocol.errors import LakemarkError


def add_sinks_command(commands: Commands) -> None:
    """Adds `sinks` to the command's subparsers."""
    sinks = commands.add_parser("sinks", help="the systems outside the lake that get what lands")
    actions = sinks.add_subparsers(required=True, metavar="ACTION")
    create_ = _add(actions, "create", create, "print the statements that make what sinks need, and the rights for them")
    create_.add_argument("--run", action="store_true", help="run them, as the user that the pipeline file names")
    add_command_for_all(actions, "list", list_sinks, "all sinks, and how far each is behind")
    _add(actions, "status", status, "one pipeline's sinks: what each has got, and what it lacks")
    _add(actions, "pending", pending, "transactions that sinks have prepared, and that nobody has ended")
    deliver_ = _add(actions, "deliver", deliver, "deliver what waits")
    deliver_.add_argument("--snapshot", action="store_true", help="the table as it is now, in place of what they have")
    test_ = add_command(actions, "test", test, "deal batches, kills and zombies to a class of your own")
    test_.add_argument("sink", help="the sink's name in the pipeline file")
    test_.add_argument(
        "--rounds", type=argument(a_count), default=30, metavar="N", help="how many batches (default 30)"
    )
    test_.add_argument("--seed", type=int, default=1, help="of the dice")
    for name, command, text in (
        ("pause", pause, "deliver nothing to a sink until it is resumed"),
        ("resume", resume, "end a pause"),
        ("skip", skip, "leave out the next commit that a sink would get"),
    ):
        one = add_command(actions, name, command, text)
        one.add_argument("sink", help="the sink's name in the pipeline file")
        add_reason(one, "why; recorded in the ledger")
        if name == "skip":
            one.add_argument("--all", action="store_true", help="all that there is so far")


def deliver_what_landed(settings: Settings, pipeline: Pipeline) -> None:
    """Delivers to all sinks, for a command that has landed batches. A sink that does not take it fails nothing: this
    says so, and the next delivery goes on."""
    from include.control.deliveries import Deliverer
    from include.protocol.errors import LakemarkError

    for name in pipeline.sinks:
        try:
            Deliverer(settings, pipeline, name, who(), say=say).deliver()
        except LakemarkError as error:
            say(f"sink {name}: {error}")


def create(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.sink_decisions import named_sinks
    from include.delivery.creating import create as create_in
    from include.delivery.creating import needed

    pipeline = named_pipeline(settings, options.pipeline)
    found = {name: needed(pipeline, name) for name in named_sinks(pipeline, options.sink)}
    lines = []
    for name, of_sink in found.items():
        lines += [f"-- sink {name}", *of_sink.statements]
        if options.run:
            create_in(pipeline, name, of_sink)
        else:
            lines += ["-- if another user than the one who runs these delivers:", *of_sink.rights]
    report(options, {name: of_sink.to_json() for name, of_sink in found.items()}, lines)
    return 0


def list_sinks(settings: Settings, options: argparse.Namespace) -> int:
    from include.monitoring.sinks import facts_of

    pipelines, good = named_pipelines(settings, options.pipeline)
    found = [facts_of(settings, pipeline, name) for pipeline in pipelines for name in pipeline.sinks]
    lines = [f"{one.pipeline}/{one.name}  {one.system} {one.place}  {one.in_words}" for one in found]
    report(options, [one.to_json() for one in found], lines or ["no pipeline has a sink"])
    return 0 if good else 1


def status(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.sink_decisions import named_sinks
    from include.monitoring.sinks import facts_of

    pipeline = named_pipeline(settings, options.pipeline)
    found = [facts_of(settings, pipeline, name) for name in named_sinks(pipeline, options.sink)]
    report(options, [one.to_json() for one in found], (line for one in found for line in _lines(one)))
    return 1 if any(one.standing.problem for one in found) else 0


def pending(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.sink_decisions import left_behind, named_sinks
    from include.control.sink_feed import SinkFeed
    from include.delivery.opening import pending as pending_at
    from include.protocol.errors import LakemarkError

    pipeline = named_pipeline(settings, options.pipeline)
    facts: list[JsonObject] = []
    good = True
    lines: list[str] = []
    for name in named_sinks(pipeline, options.sink):
        try:
            found = pending_at(settings, pipeline, name)
        except LakemarkError as error:  # of one sink: the others can be asked
            good = False
            facts.append(_told(name, error))
            continue
        for one in found:
            has_landed = one.prepared.follows or SinkFeed(settings, pipeline, name).has_landed(one)
            facts.append({"sink": name, **asdict(one), "has_landed": has_landed})
            lines.append(_pending_in_words(pipeline.name, name, one, has_landed))
    for warning in left_behind(settings, pipeline):
        say(f"warning: {warning}")
    report(options, facts, lines or (["no transaction is pending"] if good else []))
    return 0 if good else 1


def _told(sink: str, error: LakemarkError) -> JsonObject:
    """Says what went wrong with one of several sinks, and returns it as data."""
    say(f"{type(error).__name__}: {error.in_full}")
    return {"sink": sink, "problem": error.facts()}


def _pending_in_words(pipeline: str, sink: str, one: Pending, has_landed: bool) -> str:
    deliver_ = f"`lakemark sinks deliver {pipeline}`"
    if one.prepared.follows:
        then = f"which has landed: {deliver_} rolls it back, and delivers it again"
    elif has_landed:
        then = f"which has landed: {deliver_} commits it"
    else:
        then = f"which has not landed: {deliver_} rolls it back"
    since = one.since or "at a time that the server does not tell"
    return f"{sink}: {one.transaction}, prepared {since} for version {one.prepared.version} of the target, {then}"


def deliver(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.deliveries import Deliverer
    from include.control.sink_decisions import named_sinks
    from include.protocol.errors import LakemarkError

    pipeline = named_pipeline(settings, options.pipeline)
    facts: list[JsonObject] = []
    lines: list[str] = []
    good = True
    for name in named_sinks(pipeline, options.sink):
        deliverer = Deliverer(settings, pipeline, name, who(), say=say)
        try:
            # Without a name: of all that have one.
            has_one = options.sink is not None or pipeline.sinks[name].what != "changes"
            done = deliverer.deliver(as_it_is=options.snapshot and has_one)
        except LakemarkError as error:  # of one sink: the others get theirs
            good = False
            facts.append(_told(name, error))
            continue
        if done is None:
            lines.append(f"{name}: paused: {deliverer.standing.paused}")
            facts.append({"sink": name, "paused": deliverer.standing.paused})
        else:
            stands = "nothing has landed yet" if done.progress is None else f"it has {done.progress.in_words}"
            lines.append(f"{name}: {done.rows:,} rows in {done.deliveries:,} deliveries; {stands}")
            facts.append({"sink": name, **done.to_json()})
    report(options, facts, lines)
    return 0 if good else 1


def test(settings: Settings, options: argparse.Namespace) -> int:
    from random import Random

    from include.control.sink_decisions import named_sinks
    from include.delivery.conformance import Conformance

    pipeline = named_pipeline(settings, options.pipeline)
    [name] = named_sinks(pipeline, options.sink)
    place = pipeline.sinks[name].python
    if place is None:
        say(f"{name} is {pipeline.sinks[name].system}: Lakemark's own tests deal the same to it; this is for `python`")
        return 2
    found = Conformance(settings, place, name, rounds=options.rounds, dice=Random(options.seed), say=say)
    found.run()
    lines = [*found.findings] or [f"{found.faults} faults in {options.rounds} batches: each took effect once"]
    if not found.can_be_read:
        lines.append("not tested: what the sink holds. Give the class a method `read()` that yields its rows")
    report(options, {"faults": found.faults, "findings": found.findings, "read": found.can_be_read}, lines)
    return 1 if found.findings else 0


def pause(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.sink_decisions import named_sinks
    from include.control.sink_decisions import pause as pause_sink

    pipeline = named_pipeline(settings, options.pipeline)
    [name] = named_sinks(pipeline, options.sink)
    standing = pause_sink(settings, pipeline, name, reason=options.reason, by=who())
    report(
        options,
        standing.to_json(),
        [f"{name} gets nothing until `lakemark sinks resume {pipeline.name} {name} --reason ...`"],
    )
    return 0


def resume(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.sink_decisions import named_sinks
    from include.control.sink_decisions import resume as resume_sink

    pipeline = named_pipeline(settings, options.pipeline)
    [name] = named_sinks(pipeline, options.sink)
    standing = resume_sink(settings, pipeline, name, reason=options.reason, by=who())
    report(options, standing.to_json(), [f"{name} gets what waits with the next delivery"])
    return 0


def skip(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.deliveries import Deliverer
    from include.control.sink_decisions import named_sinks

    pipeline = named_pipeline(settings, options.pipeline)
    [name] = named_sinks(pipeline, options.sink)
    progress = Deliverer(settings, pipeline, name, who(), say=say).skip(options.reason, options.all)
    stands = "nothing waits" if progress is None else f"its rows are as they were; it goes on after {progress.in_words}"
    report(options, {"sink": name, "progress": progress and progress.to_json()}, [f"{name}: {stands}"])
    return 0


def _add(actions: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Adds an action on one sink of a pipeline, or on all of them."""
    found = add_command(actions, name, command, text)
    found.add_argument("sink", nargs="?", help="the sink's name in the pipeline file; without it: all of them")
    return found


def _lines(one: SinkFacts) -> Iterator[str]:
    yield f"{one.name}: {one.system} {one.place}, {one.mode}, {one.guarantee.replace('_', ' ')}"
    progress = one.standing.progress
    yield f"  has {progress.in_words}, since {one.standing.delivered_at}" if progress else "  has got nothing yet"
    yield f"  {one.lag.in_words}" if one.lag is not None else f"  {one.untold}"
    if one.standing.paused is not None:
        yield f"  paused: {one.standing.paused}"
    if one.standing.problem is not None:
        yield f"  its last delivery failed: {one.standing.problem}"
