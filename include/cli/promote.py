"""`lakemark promote NEW --over NAME`: a clone takes the place of the pipeline that it began from."""

from __future__ import annotations

import argparse
from functools import partial

from include.cli.ledger import generation_lines
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
from include.control.sink_decisions import gets_again
from include.protocol.json_data import JsonObject
from include.settings import Settings


def add_promote_command(commands: Commands) -> None:
    """Adds `promote` to the command's subparsers."""
    text = "let a clone's tables take the place of another pipeline's, at exactly its offsets"
    promote_ = add_command(commands, "promote", promote, text, pipeline="the clone")
    promote_.add_argument("--over", required=True, metavar="NAME", help="the pipeline whose tables' place it takes")
    add_deliver(promote_)
    add_reason(promote_, "why; recorded in the ledger")
    text = "also if the tables differ: the clone does another thing on purpose"
    promote_.add_argument("--accept-differences", action="store_true", help=text)
    text = "let the file of NAME say what the clone's says, but for its name and tables"
    promote_.add_argument("--write-file", action="store_true", help=text)
    promote_.add_argument("--dry-run", action="store_true", help="only compare the tables as they are now")


def promote(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.report import told
    from include.savepoints.beginning import file_of_the_other, write_file
    from include.savepoints.promoting import Promoting

    new, over = named_pipeline(settings, options.pipeline), named_pipeline(settings, options.over)
    text, declared = file_of_the_other(settings, new, over) if options.write_file else (None, over)

    def listen(fact: JsonObject) -> None:
        say(told(fact))

    promoting = Promoting(
        settings,
        new,
        declared,
        accepts=options.accept_differences,
        reason=options.reason,
        started_by=who(),
        deliver=deliver_of(options),
        listen=listen,
        say=say,
        write_file=None if text is None else partial(write_file, settings, over.name, text),
    )
    if options.dry_run:
        found = promoting.preview()
        gets = gets_again(over, deliver_of(options))
        facts = {"tables": [one.to_json() for one in found], "sinks": gets}
        report(options, facts, [*map(str, found), *(f"sink {name}: {told}" for name, told in gets.items())])
        return 0 if options.accept_differences or all(one.is_equal for one in found) else 1
    done = promoting.promote()
    lines = [str(one) for one in done.compared] + [*generation_lines(done.started, over)]
    if not done.compared:
        lines.append("this has ended a promotion that was interrupted: the rows are those that it had compared")
    if done.before is not None:
        file = "" if text is None else " --write-file"
        lines.append(f"to go back: `lakemark savepoint restore {over.name} {done.before}{file} --reason ...`")
    lines.append(f"{new.name} is still there; nobody needs it or its tables any more")
    report(options, done.to_json(), lines)
    return 0
