"""`lakemark up | down | demo`: the services on this machine."""

from __future__ import annotations

import argparse

from include.cli.output import Commands, add_bare_command, add_json, report, say
from include.settings import Settings


def add_service_commands(commands: Commands) -> None:
    """Adds `up`, `down` and `demo` to the command's subparsers."""
    up_ = add_bare_command(commands, "up", up, "start Kafka, Spark and Airflow on this machine")
    add_json(up_)
    up_.add_argument("--only", nargs="+", choices=("kafka", "s3", "spark", "airflow"), help="only these services")
    _add_lake(up_)
    add_bare_command(commands, "down", down, "end what `up` or `demo` started, and nothing else")
    text = "a year of flights, end to end, with a killed job and a killed Spark server"
    _add_lake(add_bare_command(commands, "demo", demo, text))


def _add_lake(command: argparse.ArgumentParser) -> None:
    words = "where its lake lies: a folder here, or an S3-compatible store that is started beside the rest"
    command.add_argument("--lake", choices=("local", "s3"), help=f"{words} (default: as last time, and at first local)")


def up(settings: Settings, options: argparse.Namespace) -> int:
    from include.installation.stack import Stack
    from include.lake.lakes import verify_lake

    stack = Stack.of(settings).with_lake(options.lake)
    parts = tuple(part for part in stack.parts if part in (options.only or stack.parts))
    stack.up(say, parts)
    if "s3" in parts:
        stack.settings.tell_libraries()
        verify_lake(stack.settings.lake, stack.settings.home)
    facts = stack.addresses(parts)
    if "airflow" in parts:
        facts |= {"login": f"{stack.airflow.user} / {stack.airflow.password}"}
    report(options, facts, (f"{name}: {value}" for name, value in facts.items()))
    return 0


def down(settings: Settings, options: argparse.Namespace) -> int:
    from include.installation.stack import Stack

    print("ended" if Stack.of(settings).down() else "nothing ran")
    return 0


def demo(settings: Settings, options: argparse.Namespace) -> int:
    from include.demo.scenario import run_demo

    return run_demo(settings, options.lake)
