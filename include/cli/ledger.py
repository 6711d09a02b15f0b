"""`lakemark ledger show | skip | rebuild` and `reset`: commands that read the ledger or begin a new generation."""

from __future__ import annotations

import argparse

from include.cli.generations import generation_lines
from include.cli.output import (
    Commands,
    a_count,
    add_command,
    add_deliver,
    add_reason,
    argument,
    deliver_of,
    named_pipeline,
    report,
    say,
    who,
)
from include.control.coordinator import Coordinator
from include.control.generation_change import DecideStart
from include.control.rebuilding import LedgerRebuild
from include.jobs.runner import create_target
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from include.protocol.errors import TerminalError
from include.protocol.generations import Origin, restart, skip
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import GenerationStarted
from include.protocol.ledger_rows import generation_to_json
from include.protocol.ledger_state import LedgerState
from include.protocol.planning import SourceExtent
from include.protocol.ranges import OffsetRange
from include.settings import Settings


def add_ledger_commands(commands: Commands) -> None:
    """Adds `ledger` and `reset` to the command's subparsers."""
    ledger = commands.add_parser("ledger", help="look into a pipeline's ledger, or repair it")
    actions = ledger.add_subparsers(required=True, metavar="ACTION")
    show_ = add_command(actions, "show", show, "every event of a pipeline's life")
    show_.add_argument("--last", type=argument(a_count), metavar="N", help="only the last N events")
    skip_ = add_command(actions, "skip", skip_ranges, "record offset ranges as lost: no batch will ever read them")
    skip_.add_argument(
        "--range",
        dest="ranges",
        action="append",
        required=True,
        type=argument(OffsetRange.parse),
        metavar="TOPIC-PARTITION:START-END",
        help="END is exclusive; START is the pipeline's next offset in that partition; may be given more than once",
    )
    _decision(skip_)
    rebuild_ = add_command(
        actions, "rebuild", rebuild, "build a lost or damaged ledger again from the target's commits"
    )
    rebuild_.add_argument("--reason", default="ledger lost", help="recorded in the ledger")
    _acceptance(rebuild_)
    reset_ = add_command(commands, "reset", reset, "begin a new generation; nothing of the old one can land any more")
    reset_.add_argument(
        "--from",
        dest="origin",
        type=_origin,
        default="committed",
        metavar="committed|earliest|BATCH",
        help="where to read on: after the last committed batch (default), from the earliest record that Kafka holds, "
        "or from the start of a batch of this generation",
    )
    add_deliver(reset_)
    _decision(reset_)


def show(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    rows = Coordinator(settings, pipeline).ledger.rows()
    if options.last is not None:
        rows = rows[-options.last :] if options.last > 0 else []
    lines = [_event_line(row) for row in rows] or ["the ledger is empty: nothing has been planned yet"]
    report(options, rows, lines)
    return 0


def skip_ranges(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)

    def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
        return skip(pipeline.name, state, source, options.ranges, reason=options.reason, started_by=who())

    return _change(settings, pipeline, options, decide)


def reset(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    kafka_order_decides = not pipeline.change.order_by

    def decide(state: LedgerState, source: SourceExtent) -> GenerationStarted:
        return restart(
            pipeline.name,
            state,
            source,
            options.origin,
            kafka_order_decides=kafka_order_decides,
            reason=options.reason,
            started_by=who(),
            deliver=deliver_of(options),
        )

    return _change(settings, pipeline, options, decide)


def rebuild(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    started, aside = _generation_change(settings, pipeline, options).rebuild(options.reason, who())
    facts = {"generation": started.generation, **generation_to_json(started), "old_ledger": aside and str(aside)}
    told = {
        "commit metadata": "the offsets in the metadata of the target's own commits",
        "rows": "the highest offsets among the target's rows: records after them may be read once more, which is safe, "
        "because changes have an order",
    }
    sinks = Coordinator(settings, pipeline).ledger.recent().sinks
    paused = [f"  sink {name} is paused: {one.paused}" for name, one in sinks.items() if one.paused is not None]
    lines = [f"made from {told[started.origin]}", *generation_lines(started), *paused]
    report(options, facts, [*lines, f"the old ledger is in {aside}"] if aside else lines)
    return 0


def _change(settings: Settings, pipeline: Pipeline, options: argparse.Namespace, decide: DecideStart) -> int:
    change = _generation_change(settings, pipeline, options)
    started, as_asked = (change.preview(decide), True) if options.dry_run else change.begin(decide)
    facts = {"generation": started.generation, "recorded": not options.dry_run, **generation_to_json(started)}
    lines = generation_lines(started, pipeline)
    if not as_asked:
        say("an interrupted change of generation was finished as it had been decided; for another one, run this again")
    report(options, facts | {"as_asked": as_asked}, lines)
    return 0 if as_asked else 1


def _generation_change(settings: Settings, pipeline: Pipeline, options: argparse.Namespace) -> LedgerRebuild:
    names = Catalog.of(pipeline).tables
    if unknown := sorted(set(options.accept) - set(names)):
        raise TerminalError(
            what="the pipeline's batches write no such table",
            where=f"{pipeline.name}, --accept {', '.join(unknown)}",
            expected=f"one of: {', '.join(names)}",
            found=", ".join(unknown),
            action="nothing was changed: name a table as the error does that speaks of it",
        )
    return LedgerRebuild(
        Coordinator(settings, pipeline),
        create_target=lambda: create_target(settings, pipeline.name, say),
        accepted=frozenset(options.accept),
    )


def _event_line(row: JsonObject) -> str:
    details = row["details"]
    match row["event"]:
        case "planned":
            text = " ".join(str(OffsetRange.from_json(r)) for r in details["ranges"])
        case "generation_started":
            lost = "".join(f"; gives up {OffsetRange.from_json(r)}" for r in details["skipped"])
            text = f"from {details['origin']} by {details['started_by']}: {details['reason']}{lost}"
        case "topics_started":
            text = ", ".join(f"{o['topic']}-{o['partition']} from {o['offset']}" for o in details["start_offsets"])
        case "attempt_started":
            text = f"{row['attempt_id'][:8]} by {details['started_by']} on {details['host']}"
        case "attempt_ended":
            text = f"{row['attempt_id'][:8]} {details['outcome']}"
        case "state_kept":
            text = "the state up to here: planning and settling read on from here"
        case "tables_left_out":
            text = f"{details['chunk']} lands, and the pipeline file leaves out {', '.join(details['tables'])}"
        case "turn_taken":
            until = details["until"]
            text = (
                f"{details['holder']} has its turn until {until[:19]}"
                if until
                else f"{details['holder']} ends its turn"
            )
        case "moved":
            text = f"lives in the lake {details['to']} from here on"
        case "audited":
            looks = [look for of_table in details["looks"].values() for look in of_table.values()]
            depth = "rows" if any("rows" in of_table for of_table in details["looks"].values()) else "log"
            found = sum(look["findings"] for look in looks)
            text = f"{len(details['looks'])} tables by {depth}, {found or 'no'} findings, by {details['started_by']}"
        case "maintained":
            text = f"maintenance has done what was due, by {details['started_by']}"
        case "sink_told":
            text = f"{details['sink']}: {details['rows']:,} rows{_decided(details)}, by {details['told_by']}"
        case "backfill_planned":
            text = f"{len(details['chunks'])} chunks, {details['requested_by']}: {details['reason']}"
        case "backfill_ended":
            text = f"{details['outcome']} by {details['ended_by']}"
        case _:
            counts = ", ".join(f"{number:,} {name}" for name, number in (details["counts"] or {}).items())
            text = f"version {details['table_version']}: {counts or 'counts expired'}"
    at = row["recorded_at"].isoformat(timespec="seconds")
    return f"{row['sequence']:>6}  {at}  g{row['generation']} b{row['batch_id']:<5} {row['event']:<18} {text}"


def _decided(details: JsonObject) -> str:
    """What a person has decided about a sink, or what its last delivery has met."""
    reason, standing = details["reason"], details["standing"]
    if standing["problem"] is not None:
        return f"; the delivery failed: {standing['problem']}"
    if reason is not None:
        return f"; {'paused' if standing['paused'] is not None else 'goes on'}: {reason}"
    return ""


def _decision(sub: argparse.ArgumentParser) -> None:
    add_reason(sub, "why; recorded in the ledger")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be recorded")
    _acceptance(sub)


def _acceptance(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="TABLE",
        help="go on with a table, also the target, that is not as the last batch left it; may be given more than once",
    )


def _origin(text: str) -> Origin:
    if text == "committed":
        return "committed"
    if text == "earliest":
        return "earliest"
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"expected committed, earliest or a batch's id; found {text!r}")
