"""The commands, by the modules that have them."""

from __future__ import annotations

import argparse

import pytest

from include.cli.command import GROUPS, Group


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.adder)
def test_a_group_names_the_commands_that_its_module_adds(group: Group) -> None:
    """Else such a command would be found only after all modules are imported."""
    commands = argparse.ArgumentParser().add_subparsers()
    group.add(commands)
    assert tuple(commands.choices) == group.names
