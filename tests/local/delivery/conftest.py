"""Every test with a server runs on each kind."""

from __future__ import annotations

import pytest

from tests.support.delivered import FIXTURES, KINDS
from tests.support.sink_servers import SinkServer


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> SinkServer:
    """A server without tables."""
    found: SinkServer = request.getfixturevalue(FIXTURES[request.param])
    found.clear()
    return found
