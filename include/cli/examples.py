"""`lakemark example NAME | --list`: the classic examples of sinks, with their faults."""

from __future__ import annotations

import argparse

from include.cli.output import Commands, add_bare_command, say
from include.settings import Settings


def add_example_command(commands: Commands) -> None:
    """Adds `example` to the command's subparsers."""
    sub = add_bare_command(commands, "example", example, "run a classic example, with its faults, and judge it")
    what = sub.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", help="its name")
    what.add_argument("--list", action="store_true", help="name them all, one a line")


def example(settings: Settings, options: argparse.Namespace) -> int:
    from include.examples.catalog import EXAMPLES
    from include.examples.lab import open_lab
    from include.pipeline_file.in_words import near
    from include.protocol.errors import TerminalError

    if options.list:
        for name, one in EXAMPLES.items():
            print(f"{name}  {one.in_words}")
        return 0
    if options.name not in EXAMPLES:
        raise TerminalError(
            what="there is no such example",
            where="the examples of sinks",
            expected=f"one of {', '.join(EXAMPLES)}{near(options.name, [*EXAMPLES])}",
            found=options.name,
            action="`lakemark example --list` names them",
        )
    with open_lab(settings, options.name, say) as lab:
        good = EXAMPLES[options.name].run(lab)
    print(f"{options.name}: {'as it must be' if good else 'NOT as it must be'}")
    say("`lakemark down` ends the services")
    return 0 if good else 1
