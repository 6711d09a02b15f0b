"""One installation for all end-to-end tests; `test_the_end.py` takes it down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import settings_in
from tests.support.installed import Installed
from tests.support.receivers import Lineage, Mail
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def mail() -> Mail:
    return Mail()


@pytest.fixture(scope="session")
def lineage() -> Lineage:
    return Lineage()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3")
    with s3_server(settings_in(folder / "home"), folder / "server") as server:
        yield server


@pytest.fixture(scope="session")
def installed(
    tmp_path_factory: pytest.TempPathFactory, mail: Mail, lineage: Lineage, store: S3Server
) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("installed")
    published = {"LAKEMARK_DATA_DOCS": "s3://data-docs", "LAKEMARK_DATA_DOCS_URL": "https://docs.example/"}
    receivers = {**mail.environment(home / "alerts.yaml"), **lineage.environment, **store.environment}
    installed = Installed(home, **receivers, **published)
    try:
        yield installed
    finally:
        installed.stack.down()
