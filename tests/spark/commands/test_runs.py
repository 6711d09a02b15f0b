"""The session that several batches share."""

from __future__ import annotations

from contextlib import closing

from spark_jobs.commands.runs import SharedSession
from tests.support.world import World


def test_a_session_is_kept_as_long_as_its_server_knows_it(world: World) -> None:
    """A server that was restarted knows it no more: here it is told to forget it."""
    with closing(SharedSession(world.session)) as shared:
        first = shared.get()
        assert shared.get() is first
        first.client.release_session()
        second = shared.get()
        assert second is not first
        assert second.range(3).count() == 3
