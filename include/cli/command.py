"""The command `lakemark`. Exit codes: 0 good, 1 a finding or a failure, 2 wrong usage; as in a shell, 130 if it was
interrupted and 141 if nobody reads what it prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from include.cli.output import Commands, say
from include.lake.lakes import verify_lives
from include.lake.stores import requests_sent
from include.protocol.errors import LakemarkError
from include.settings import Settings


class Group(NamedTuple):
    """The commands of one module. It is imported when one of them is given: no command waits for what others need."""

    module: str
    adder: str  # the function that adds them
    names: tuple[str, ...]

    def add(self, commands: Commands) -> None:
        add: Callable[[Commands], None] = getattr(import_module(f"include.cli.{self.module}"), self.adder)
        add(commands)


GROUPS = (  # in the order of the command's help
    Group("services", "add_service_commands", ("up", "down", "demo")),
    Group("pipeline_files", "add_validate_command", ("validate",)),
    Group("batches", "add_batch_commands", ("plan", "run")),
    Group("status", "add_status_commands", ("status", "audit")),
    Group("tables", "add_table_commands", ("maintain", "query")),
    Group("checkpoints", "add_checkpoint_command", ("checkpoint",)),
    Group("savepoints", "add_savepoint_command", ("savepoint",)),
    Group("promote", "add_promote_command", ("promote",)),
    Group("sinks", "add_sinks_command", ("sinks",)),
    Group("examples", "add_example_command", ("example",)),
    Group("ledger", "add_ledger_commands", ("ledger", "reset")),
    Group("lake", "add_lake_command", ("lake",)),
    Group("backfill", "add_backfill_command", ("backfill",)),
    Group("quality", "add_quality_command", ("quality",)),
    Group("quarantine", "add_quarantine_command", ("quarantine",)),
    Group("profile", "add_profile_command", ("profile",)),
    Group("pipeline_files", "add_explain_command", ("explain",)),
)


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
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser(arguments)
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


def _parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of a command. Args: arguments: of the command; where they name none that is known, it knows them all,
    to say which there are."""
    parser = argparse.ArgumentParser(prog="lakemark", description="Exactly-once micro-batches from Kafka to Delta.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = [group for group in GROUPS if arguments and arguments[0] in group.names]
    for group in named or GROUPS:
        group.add(commands)
    return parser
