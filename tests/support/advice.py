"""Does what an error says, word for word."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from include.pipeline_file import Pipeline
from tests.support.world import World


def advised(action: str, pipeline: Pipeline) -> list[list[str]]:
    """The commands of an error's advice; the name and the reason are what a person fills in."""
    commands = [shlex.split(command)[1:] for command in re.findall(r"`(lakemark [^`]*)`", action)]
    return [[{"NAME": pipeline.name, "...": "as told"}.get(word, word) for word in command] for command in commands]


def follow(world: World, pipeline: Pipeline, which: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """Runs the pipeline until it is caught up; for every error on the way it types the command that the error gives.

    Args:
        which: which of the commands that an error of this name gives; by default the first one.

    Returns:
        The errors, as data.
    """
    met: list[dict[str, Any]] = []
    for _ in range(5):
        done = world.lakemark("run", pipeline.name, "--until-caught-up", "--json")
        if done.returncode == 0:
            return met
        met.append(error := json.loads(done.stdout))
        told = advised(error["action"], pipeline)
        if told:
            command = told[(which or {}).get(error["error"], 0)]
            followed = world.lakemark(*command)
            # `audit` exits with 1 for what it finds, `reset` when it has finished another one that was interrupted.
            is_done = followed.returncode == 0 or command[0] == "audit" or "finished as it had been" in followed.stderr
            assert is_done, (command, followed.stdout, followed.stderr)
    raise AssertionError(f"what the errors say leads nowhere: {met}")
