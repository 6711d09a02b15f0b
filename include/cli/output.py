"""What commands share: their arguments, data or lines on standard output, progress on standard error."""

from __future__ import annotations

import argparse
import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from include.pipeline_file import Pipeline, find_pipeline, pipeline_files
from include.protocol.errors import PipelineFileError, TerminalError
from include.protocol.json_data import JsonValue
from include.protocol.ranges import OffsetRange
from include.settings import Settings

T = TypeVar("T")
Command = Callable[[Settings, argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def report(options: argparse.Namespace, facts: JsonValue, lines: Iterable[str]) -> None:
    """Prints `facts` as JSON if `--json` was given, else `lines`."""
    if options.json:
        print(json.dumps(facts, indent=2, default=str))
    else:
        for line in lines:
            print(printable(line))


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with escapes in place of control characters: a terminal would obey those of a record."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def who() -> str:
    """The person who typed the command, for the ledger."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def add_bare_command(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Adds a command without arguments. It works on no pipeline of the lake, unless `in_lake` is set."""
    sub = commands.add_parser(name, help=text, description=text)
    sub.set_defaults(command=command, in_lake=False)
    return sub


def add_command(
    commands: Commands, name: str, command: Command, text: str, pipeline: str = "name of a pipeline"
) -> argparse.ArgumentParser:
    """Adds a command that reports on one pipeline.

    Args:
        pipeline: help for its name.
    """
    sub = add_bare_command(commands, name, command, text)
    sub.set_defaults(in_lake=True)
    sub.add_argument("pipeline", help=pipeline)
    add_json(sub)
    return sub


def add_command_for_all(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Adds a command that reports on all pipelines, or on those that are named."""
    sub = add_bare_command(commands, name, command, text)
    sub.set_defaults(in_lake=True)
    sub.add_argument("pipeline", nargs="*", help="name of a file in include/pipelines, without .yaml")
    add_json(sub)
    return sub


def add_json(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--json", action="store_true", help="print data instead of text")


def add_ranges(sub: argparse.ArgumentParser, text: str) -> None:
    """Adds `--range`, which may be given several times: a list of `OffsetRange` under `ranges`."""
    sub.add_argument(
        "--range",
        dest="ranges",
        action="append",
        default=[],
        type=argument(OffsetRange.parse),
        metavar="T-P:START-END",
        help=text,
    )


def add_deliver(sub: argparse.ArgumentParser) -> None:
    """Adds what sinks outside the lake get of what the command brings."""
    text = "what sinks get: what changes (default); nothing; or nothing until you decide"
    sub.add_argument("--deliver", choices=("again", "skip", "refuse"), default="again", help=text)


def deliver_of(options: argparse.Namespace) -> str | None:
    """What was said of it, as `GenerationStarted` has it."""
    return None if options.deliver == "again" else options.deliver


def add_reason(sub: argparse.ArgumentParser, text: str) -> None:
    """Adds `--reason`, which a person must give. Args: text: its help."""
    sub.add_argument("--reason", required=True, type=argument(_a_reason), help=text)


def a_count(text: str) -> int:
    """A number of things. Raises ValueError: it is none."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"expected a number from 1 on, found {text[:50]!r}")
    return int(text)


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A type for argparse that reports the error of `parse` for wrong text (argparse itself would leave it out)."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _a_reason(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a few words, for whoever reads the ledger later; found nothing")
    return text


def all_names(settings: Settings) -> list[str]:
    """The names of all pipeline files. Raises TerminalError: there are none, so the command would do nothing."""
    found = [path.stem for path in pipeline_files(settings.pipelines)]
    if not found:
        raise TerminalError(
            what="there is no pipeline file yet",
            where=str(settings.pipelines),
            expected="a file NAME.yaml",
            found="none",
            action="write one (docs/pipeline-file.md), or copy one of include/pipelines/examples",
        )
    return found


def named_pipeline(settings: Settings, name: str) -> Pipeline:
    return find_pipeline(name, settings.pipelines, settings.environment)


def named_pipelines(settings: Settings, names: list[str]) -> tuple[list[Pipeline], bool]:
    """The named pipelines, or all, each after its landing if it has one; and whether every file was valid.

    A broken file hides no other pipeline.
    """
    found: list[Pipeline] = []
    good = True
    for name in names or all_names(settings):
        try:
            found += named_pipeline(settings, name).halves
        except PipelineFileError as error:
            good = False
            say(f"{type(error).__name__}: {error}")
    return found, good
