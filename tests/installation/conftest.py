"""One installation for all end-to-end tests; `test_the_end.py` takes it down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from include.pipeline_file import Pipeline
from tests.conftest import settings_in
from tests.support.browser import find_browser
from tests.support.installed import Installed
from tests.support.page_browser import Browser, logged_in
from tests.support.receivers import Lineage, Mail
from tests.support.rights import AUTH_MANAGER
from tests.support.s3_server import S3Server, s3_server
from tests.support.world import changes


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
    installed = Installed(home, **receivers, **published, AIRFLOW__CORE__AUTH_MANAGER=AUTH_MANAGER)
    try:
        yield installed
    finally:
        installed.stack.down()


@pytest.fixture(scope="package")
def browser(installed: Installed) -> Iterator[Browser]:
    """Chromium, logged in at Airflow. Nothing that it opens may fail, or ask a foreign host."""
    if find_browser() is None:
        pytest.skip("no Chromium for this machine: none is pinned for its platform, and it has none of its own")
    with logged_in(installed, {"width": 1400, "height": 1000}) as page:
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        ours = (installed.stack.airflow.url, "blob:", "data:")
        page.on("request", lambda r: r.url.startswith(ours) or problems.append(r.url))
        yield Browser(installed, page, problems)
        assert problems == []


@pytest.fixture(scope="package")
def shown(installed: Installed) -> Pipeline:
    """Four batches, records in quarantine, and some that wait."""
    world = installed.world
    topic = world.topic()
    largest = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "min_value": 0}}
    named = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}
    world.write_suite("named", [named, largest])
    limits = {"limits": {"records_per_batch_max": 30}}
    pipeline = world.pipeline(topic, "shown", source=limits, quality={"suite": "named"})
    installed.dag(pipeline)
    world.produce(topic, [*changes(range(100), 1), b"<script>alert(1)</script>", b"no json"])
    installed.run("lakemark__shown")
    world.produce(topic, changes(range(5), 2))
    return pipeline
