"""What commands share: data or lines on standard output, progress on standard error; and their arguments."""

from __future__ import annotations

import argparse
import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from include.pipeline_file import Pipeline, find_pipeline
from include.settings import Settings

T = TypeVar("T")


def report(options: argparse.Namespace, facts: Any, lines: Iterable[str]) -> None:
    """`facts` as JSON if `--json` was given, else `lines`."""
    if options.json:
        print(json.dumps(facts, indent=2, default=str))
    else:
        for line in lines:
            print(line)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def who() -> str:
    """For the ledger: who typed the command."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def add_command(commands: Any, name: str, command: Any, text: str) -> argparse.ArgumentParser:
    """A subcommand of one pipeline that reports."""
    sub = commands.add_parser(name, help=text, description=text)
    sub.set_defaults(command=command)
    sub.add_argument("pipeline", help="name of a pipeline")
    sub.add_argument("--json", action="store_true", help="print data instead of text")
    return sub


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse that says what `parse` says of wrong text (argparse itself would leave that out)."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def named_pipeline(settings: Settings, name: str) -> Pipeline:
    return find_pipeline(name, settings.pipelines, settings.environment)
