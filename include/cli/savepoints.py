"""`lakemark savepoint create | list | show | verify | restore | drop`: checkpoints with a name, which stay."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from include.cli.checkpoints import report_restore
from include.cli.generations import generation_lines
from include.cli.output import (
    Commands,
    add_command,
    add_deliver,
    add_reason,
    deliver_of,
    named_pipeline,
    report,
    say,
    who,
)
from include.lake.uri import lake_at
from include.pipeline_file import LANDING
from include.protocol.savepoints import Begun, Savepoint
from include.settings import Settings

if TYPE_CHECKING:
    from include.savepoints.checking import Report, Seen
    from include.savepoints.rehearsals import Rehearsal


def add_savepoint_command(commands: Commands) -> None:
    """Adds `savepoint` to the command's subparsers."""
    savepoint = commands.add_parser("savepoint", help="named states of a pipeline's tables, which stay until dropped")
    actions = savepoint.add_subparsers(required=True, metavar="ACTION")
    create_ = add_command(actions, "create", create, "give a checkpoint a name, and keep it")
    create_.add_argument("--name", required=True, help="of the savepoint")
    create_.add_argument("--at", metavar="BATCH", help="the checkpoint: BATCH or GENERATION/BATCH; default: the newest")
    text = "data files of its own (links on a local lake), which no VACUUM of the tables reaches; default: a pin"
    create_.add_argument("--copy", action="store_true", help=text)
    create_.add_argument("--deep", action="store_true", help="read all files, and keep their hashes")
    create_.add_argument("--reason", default="", help="what it is for")
    add_command(actions, "list", list_savepoints, "all savepoints, and whether each is whole")
    _which(add_command(actions, "show", show, "one savepoint: offsets, tables, sizes"))
    verify_ = add_command(actions, "verify", verify, "check a savepoint against its manifest")
    _which(verify_)
    verify_.add_argument("--deep", action="store_true", help="read all files: their hashes, and every row")
    text = "restore a savepoint into a pipeline that lives for a while, audit it, and drop it"
    rehearse_ = add_command(actions, "rehearse", rehearse, text)
    rehearse_.add_argument("savepoint", nargs="?", metavar="SAVEPOINT", help="its name; default: the newest whole one")
    restore_ = add_command(actions, "restore", restore, "all tables and the offsets go back to a savepoint, together")
    _which(restore_)
    add_reason(restore_, "why; recorded in the ledger")
    restore_.add_argument("--dry-run", action="store_true", help="only say what would change")
    add_deliver(restore_)
    files_ = restore_.add_mutually_exclusive_group()
    files_.add_argument("--write-file", action="store_true", help="the pipeline file goes back, too")
    text = "go on by the pipeline's files as they are, also if they say another thing now"
    files_.add_argument("--keep-file", action="store_true", help=text)
    clone_ = add_command(actions, "clone", clone, "begin another pipeline with a savepoint: own tables, own ledger")
    _which(clone_)
    text = "the new pipeline; without a file of that name, one is made of the savepoint's"
    clone_.add_argument("--as", dest="new", required=True, metavar="NEW", help=text)
    text = "another lake, which has the savepoint: a folder, or s3://BUCKET/PREFIX; default: this one"
    clone_.add_argument("--from-lake", metavar="LAKE", help=text)
    clone_.add_argument("--reason", default="", help="what it is for; recorded in the ledger")
    clone_.add_argument("--dry-run", action="store_true", help="only say what becomes of every table")
    _which(add_command(actions, "drop", drop, "remove a savepoint, also one that was not ended"))


def create(settings: Settings, options: argparse.Namespace) -> int:
    from include.savepoints.making import Making

    pipeline = named_pipeline(settings, options.pipeline)
    making = Making(
        settings,
        pipeline,
        options.name,
        at=options.at,
        is_copy=options.copy,
        is_deep=options.deep,
        reason=options.reason,
        created_by=who(),
        say=say,
    )
    made = making.make()
    report(options, made.to_json(), _lines(made))
    return 0


def list_savepoints(settings: Settings, options: argparse.Namespace) -> int:
    from include.savepoints.checking import seen
    from include.savepoints.rehearsals import rehearsed

    pipeline = named_pipeline(settings, options.pipeline)
    found = [(one, rehearsed(settings, pipeline, one.on_shelf.name)) for one in reversed(seen(settings, pipeline))]
    lines = [_line(one) + _rehearsed(when) for one, when in found] or ["there is no savepoint yet"]
    facts = [{**one.to_json(), "rehearsed": when and when.to_json()} for one, when in found]
    report(options, facts, lines)
    return 0


def show(settings: Settings, options: argparse.Namespace) -> int:
    from include.checkpoints.shelf import taken

    found = taken(settings, named_pipeline(settings, options.pipeline), options.savepoint)
    report(options, found.to_json(), _lines(found))
    return 0


def verify(settings: Settings, options: argparse.Namespace) -> int:
    from include.savepoints.checking import checked

    pipeline = named_pipeline(settings, options.pipeline)
    found = checked(settings, pipeline, options.savepoint, is_deep=options.deep, say=say)
    report(options, found.to_json(), _checked_lines(found))
    return 1 if found.problems else 0


def rehearse(settings: Settings, options: argparse.Namespace) -> int:
    from include.audit.rehearsal import rehearse as rehearse_restore
    from include.savepoints.checking import newest_whole

    pipeline = named_pipeline(settings, options.pipeline)
    done = rehearse_restore(settings, pipeline, options.savepoint or newest_whole(settings, pipeline), say)
    how = "would be restored as it was" if not done.problems else "would NOT be restored as it was"
    lines = [f"{pipeline.name}, savepoint {done.savepoint} {how} ({done.seconds:.0f} s)"]
    report(options, done.to_json(), [*lines, *(f"  {problem}" for problem in done.problems)])
    return 1 if done.problems else 0


def restore(settings: Settings, options: argparse.Namespace) -> int:
    from include.participants.program import rules_of
    from include.savepoints.beginning import write_file
    from include.savepoints.program import kept_file, verify_program
    from include.savepoints.restoring import restoring

    pipeline, name = named_pipeline(settings, options.pipeline), options.savepoint
    text, rules = None, None
    if options.write_file:
        text, pipeline = kept_file(settings, pipeline, name)
        rules = rules_of(settings, pipeline)
    if not options.keep_file:
        verify_program(settings, pipeline, name)
    deliver = deliver_of(options)
    back = restoring(settings, pipeline, name, reason=options.reason, started_by=who(), rules=rules, deliver=deliver)
    code = report_restore(options, back)
    if text is not None and not options.dry_run:  # after the rows: the next batch asks whether it was written
        write_file(settings, pipeline.name.removesuffix(LANDING), text)
    return code


def clone(settings: Settings, options: argparse.Namespace) -> int:
    from include.savepoints.beginning import add_file, new_pipeline
    from include.savepoints.cloning import Cloning

    source = named_pipeline(settings, options.pipeline)
    name, lake = options.savepoint, lake_at(options.from_lake) if options.from_lake else None
    to, text = new_pipeline(settings, source, name, options.new, lake=lake)
    cloning = Cloning(settings, source, name, to, reason=options.reason, started_by=who(), say=say, lake=lake)
    verdicts = cloning.verdicts()
    lines = [str(one) for one in verdicts]
    if not options.dry_run:
        lines += generation_lines(cloning.begin())
        if text is not None:
            lines.append(f"made {add_file(settings, to.name, text)}: the savepoint's file, with other names")
        lines.append(f"`lakemark run {to.name}` goes on from there")
    elif all(one.kind != "impossible" for one in verdicts):
        cloning.verify()
    facts = {"tables": [one.to_json() for one in verdicts], "pipeline": to.name, "recorded": not options.dry_run}
    report(options, facts, lines)
    return 1 if any(one.kind == "impossible" for one in verdicts) else 0


def drop(settings: Settings, options: argparse.Namespace) -> int:
    from include.checkpoints.shelf import drop as drop_from_shelf

    found = drop_from_shelf(settings, named_pipeline(settings, options.pipeline), options.savepoint)
    was = "one that was begun and not ended" if found.savepoint is None else _kind(found.savepoint.begun)
    text = f"dropped {found.name}: {was}"
    report(options, {"dropped": found.name, "was_ended": found.savepoint is not None}, [text])
    return 0


def _which(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("savepoint", metavar="SAVEPOINT", help="its name")


def _line(one: Seen) -> str:
    found = one.on_shelf
    if found.begun is None:
        return f"{found.name}  broken: {one.lost}"
    begun = found.begun
    size = f"{found.savepoint.bytes / 1e6:,.1f} MB" if found.savepoint is not None else ""
    state = "whole" if one.lost is None else f"broken: {one.lost}" if one.is_ended else one.lost
    if one.lost is None and one.moved_on is not None:
        state = f"whole; but {one.moved_on} is another table now: it can be cloned, and not restored"
    reason = f"  ({begun.reason})" if begun.reason else ""
    kind = "copy" if begun.is_copy else "pin "
    return f"{found.name}  {begun.created_at[:19]}Z  {kind} of {begun.checkpoint.name}  {size}  {state}{reason}"


def _rehearsed(when: Rehearsal | None) -> str:
    if when is None:
        return ""
    return f"  rehearsed {when.at[:19]}Z: {f'problems: {len(when.problems)}' if when.problems else 'good'}"


def _lines(one: Savepoint) -> Iterator[str]:
    begun = one.begun
    yield f"{begun.pipeline}, savepoint {begun.name}: {_kind(begun)}"
    yield f"  made at {begun.created_at[:19]}Z by {begun.created_by}{f': {begun.reason}' if begun.reason else ''}"
    for tp, offset in sorted(begun.checkpoint.next_offsets.items()):
        yield f"  {tp} up to offset {offset:,}"
    for name, table in one.tables.items():
        if table.folder is None:
            yield f"  {name}: was not there yet"
            continue
        rows = "" if table.rows is None else f"{table.rows:,} rows, "
        yield f"  {name}: version {table.position.version}, {rows}{table.files:,} files, {table.bytes / 1e6:,.1f} MB"
    for sink, standing in begun.sinks.items():
        progress = "nothing" if standing.progress is None else standing.progress.in_words
        yield f"  sink {sink}: had {progress}{' and was paused' if standing.paused else ''}"
    yield f"  with {', '.join(one.texts)}"


def _kind(begun: Begun) -> str:
    return f"{'a copy' if begun.is_copy else 'a pin'} of {begun.checkpoint.in_words}"


def _checked_lines(found: Report) -> Iterator[str]:
    how = "read and compared" if found.is_deep else "looked at"
    name = f"{found.savepoint.begun.pipeline}, savepoint {found.savepoint.begun.name}"
    if not found.problems:
        yield f"{name} is whole: {how} {found.files:,} files, {found.bytes / 1e6:,.1f} MB"
        return
    yield f"{name} is broken: {how} {found.files:,} files"
    yield from (f"  {problem}" for problem in found.problems)
