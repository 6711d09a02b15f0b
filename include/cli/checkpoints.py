"""`lakemark checkpoint list | show | restore`: the cuts that a pipeline can be read at, and go back to."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    who,
)
from include.pipeline_file import Pipeline
from include.protocol.checkpoints import named
from include.protocol.ledger_rows import generation_to_json
from include.settings import Settings

if TYPE_CHECKING:
    from include.checkpoints.listing import Listed
    from include.checkpoints.restoring import Restoring

_LAST = 20


def add_checkpoint_command(commands: Commands) -> None:
    """Adds `checkpoint` to the command's subparsers."""
    checkpoint = commands.add_parser("checkpoint", help="the states that a pipeline's tables can go back to")
    actions = checkpoint.add_subparsers(required=True, metavar="ACTION")
    list_ = add_command(actions, "list", list_checkpoints, "the newest checkpoints, and whether each can be restored")
    list_.add_argument("--last", type=argument(a_count), default=_LAST, metavar="N", help=f"how many (default {_LAST})")
    show_ = add_command(actions, "show", show, "one checkpoint: offsets, tables, counts, how long it can be restored")
    _which(show_)
    restore_ = add_command(actions, "restore", restore, "all tables and the offsets go back to a checkpoint, together")
    _which(restore_)
    add_reason(restore_, "why; recorded in the ledger")
    restore_.add_argument("--dry-run", action="store_true", help="only say what would change")
    add_deliver(restore_)


def list_checkpoints(settings: Settings, options: argparse.Namespace) -> int:
    from include.checkpoints.listing import checkpoints_in, listed

    pipeline = named_pipeline(settings, options.pipeline)
    known = checkpoints_in(settings, pipeline)
    found = listed(settings, pipeline, known[-options.last :])
    lines = [_line(one) for one in reversed(found)] or ["no batch was committed yet"]
    if len(known) > len(found):
        lines.append(f"{len(known) - len(found):,} earlier ones: --last {len(known)} looks at them, too")
    report(options, [one.to_json() for one in reversed(found)], lines)
    return 0


def show(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    one = _listed(settings, pipeline, options.checkpoint)
    report(options, one.to_json(), _lines(one))
    return 0


def restore(settings: Settings, options: argparse.Namespace) -> int:
    from include.checkpoints.listing import checkpoints_in
    from include.checkpoints.restoring import Restoring
    from include.control.coordinator import Coordinator

    pipeline = named_pipeline(settings, options.pipeline)
    to = named(pipeline.name, checkpoints_in(settings, pipeline), options.checkpoint)
    restoring = Restoring(Coordinator(settings, pipeline), to, options.reason, who(), deliver=deliver_of(options))
    return report_restore(options, restoring)


def report_restore(options: argparse.Namespace, restoring: Restoring) -> int:
    """Goes back, or only says what would change. Returns the exit code."""
    effect = restoring.preview() if options.dry_run else None
    started = restoring.restore() if effect is None else effect.started
    facts = {"generation": started.generation, "recorded": not options.dry_run, **generation_to_json(started)}
    lines = [*generation_lines(started)]
    if effect is not None:
        facts |= effect.to_json()
        lines += [f"  {line}" for line in effect.lines]
    report(options, facts, lines)
    return 0


def _which(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("checkpoint", metavar="BATCH", help="BATCH of the newest generation, or GENERATION/BATCH")


def _listed(settings: Settings, pipeline: Pipeline, name: str) -> Listed:
    """One checkpoint. The later ones tell how long it can still be restored."""
    from include.checkpoints.listing import checkpoints_in, listed

    known = checkpoints_in(settings, pipeline)
    at = known.index(named(pipeline.name, known, name))
    return listed(settings, pipeline, known[at:])[0]


def _line(one: Listed) -> str:
    counts = one.checkpoint.counts
    read = f"{counts.read:>9,} read" if counts is not None else f"{'':>14}"
    return f"{one.checkpoint.name:>9}  {_at(one.checkpoint.committed_at)}  {read}  {_state(one)}"


def _lines(one: Listed) -> Iterator[str]:
    checkpoint = one.checkpoint
    yield f"{checkpoint.pipeline}, {checkpoint.in_words}, committed {_at(checkpoint.committed_at)}"
    yield f"  {_state(one)}"
    if checkpoint.counts is not None:
        yield "  " + ", ".join(f"{number:,} {name}" for name, number in checkpoint.counts.to_json().items())
    for tp, offset in sorted(checkpoint.next_offsets.items()):
        yield f"  {tp} up to offset {offset:,}"
    for table in one.tables:
        version = "was not there yet" if table.position.version is None else f"version {table.position.version:,}"
        lost = f"; {table.past.lost}" if table.past.lost is not None else ""
        yield f"  {table.name}: {version}, {len(table.past.names):,} files, {table.past.bytes / 1e6:,.1f} MB{lost}"


def _state(one: Listed) -> str:
    if one.lost is not None:
        return f"broken: {one.lost}"
    if one.until is None:
        return "can be restored; its files are still those of the tables"
    return f"can be restored until {_at(one.until)} at least: then VACUUM may remove its files"


def _at(moment: str | None) -> str:
    return "at an unknown time" if moment is None else f"{moment[:19]}Z"
