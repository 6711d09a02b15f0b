"""One installation for all end-to-end tests; `test_the_end.py` takes it down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.installed import Installed
from tests.support.receivers import Lineage, Mail


@pytest.fixture(scope="session")
def mail() -> Mail:
    return Mail()


@pytest.fixture(scope="session")
def lineage() -> Lineage:
    return Lineage()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, mail: Mail, lineage: Lineage) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("installed")
    installed = Installed(home, **mail.environment(home / "alerts.yaml"), **lineage.environment)
    try:
        yield installed
    finally:
        installed.stack.down()
