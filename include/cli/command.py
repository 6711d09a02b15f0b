"""The command `lakemark`. Exit codes: 0 good, 1 a finding or a failure, 2 wrong usage; as in a shell, 130 if it was
interrupted and 141 if nobody reads what it prints."""

from __future__ import annotations

import argparse
import json
import os
import sys

from include.cli.backfill import add_backfill_command
from include.cli.batches import add_batch_commands
from include.cli.checkpoints import add_checkpoint_command
from include.cli.lake import add_lake_command
from include.cli.ledger import add_ledger_commands
from include.cli.output import say
from include.cli.pipeline_files import add_explain_command, add_validate_command
from include.cli.profile import add_profile_command
from include.cli.promote import add_promote_command
from include.cli.quality import add_quality_command
from include.cli.quarantine import add_quarantine_command
from include.cli.savepoints import add_savepoint_command
from include.cli.services import add_service_commands
from include.cli.status import add_status_commands
from include.cli.tables import add_table_commands
from include.lake.lakes import verify_lives
from include.lake.stores import requests_sent
from include.protocol.errors import LakemarkError
from include.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    try:
        code = _done(options)
        sys.stdout.flush()  # here, where an error can still be met
        return code
    except LakemarkError as error:
        if getattr(options, "json", False):
            print(json.dumps(error.facts()))
        else:
            say(f"{type(error).__name__}: {error.in_full}")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # of `lakemark status | head -1`, say. The interpreter's end flushes again: to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _options(arguments: list[str] | None) -> argparse.Namespace:
    """The options of a command. Where one takes several names, more of them may follow an option: argparse takes those
    alone that come in one go."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    named = getattr(options, "pipeline", None)
    if rest and isinstance(named, list) and not any(one.startswith("-") for one in rest):
        options.pipeline = [*named, *rest]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _done(options: argparse.Namespace) -> int:
    """Does the command. With `--json` the last line on standard error is data, too: the requests to the lake's store,
    if there is one that counts them."""
    try:
        settings = Settings.from_environment()
        if options.in_lake:
            verify_lives(settings.lake, settings.home)
        code: int = options.command(settings, options)
        return code
    finally:
        if getattr(options, "json", False) and (sent := requests_sent()):
            say(json.dumps({"requests": sent}))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lakemark", description="Exactly-once micro-batches from Kafka to Delta.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (  # in the order of the command's help
        add_service_commands,
        add_validate_command,
        add_batch_commands,
        add_status_commands,
        add_table_commands,
        add_checkpoint_command,
        add_savepoint_command,
        add_promote_command,
        add_ledger_commands,
        add_lake_command,
        add_backfill_command,
        add_quality_command,
        add_quarantine_command,
        add_profile_command,
        add_explain_command,
    ):
        add(commands)
    return parser
