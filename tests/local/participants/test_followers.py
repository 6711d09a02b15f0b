"""What `explain` says of sinks: the guarantee of each, and of the whole."""

from __future__ import annotations

from pathlib import Path

from include.participants.explain import explanation
from tests.support.hand_made import coordinator_of

DATABASE = {"host": "db", "database": "d", "username": "u", "table": "orders"}


def test_the_weakest_sink_decides_and_readers_are_spoken_of(tmp_path: Path) -> None:
    sinks = {"topic": {"kafka": {"topic": "out"}}, "app": {"postgresql": DATABASE, "guarantee": "at_least_once"}}
    told = explanation(coordinator_of(tmp_path, sinks=sinks).pipeline)
    *_, topic, app = told["parts"]
    assert topic["name"] == "sink topic, kafka out" and "readers must be read_committed" in topic["because"]
    assert (told["guarantee"], told["weakest"]) == ("at_least_once", app)
    assert "comes again" in app["because"]
