"""One broker, one S3-compatible store and one warm Spark server per run, on ports and in folders of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from include.installation.object_store import BUCKET
from include.installation.stack import PORTS, Stack
from include.lake.s3 import connection
from include.settings import PROJECT_ROOT, Settings
from tests.support.lossy_store import LossyStore, lossy_store
from tests.support.sink_servers import maria, postgres
from tests.support.stopped import end
from tests.support.world import World

# The environment must not affect the tests: neither an installation that runs here nor a user's own settings.
for name in [n for n in os.environ if n.startswith(("LAKEMARK_", "AIRFLOW", "AWS_")) or n == "KAFKA_BOOTSTRAP_SERVERS"]:
    if name != "LAKEMARK_JAVA":
        del os.environ[name]


__all__ = ["maria", "postgres"]  # fixtures of all tests
SERVICES = ("kafka", "s3", "spark")
LAKES = ("local", "s3")
NOT_ALLOWED = "this machine does not let us"  # begins the reason of a skip for want of a right, not of a set-up


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lake", choices=LAKES, help="run all tests with a world on this kind of lake, and on no other")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that are marked `on_both_lakes` run on either; the ones on S3 are slow, unless the mark says `fast`. With
    `--lake`, all tests with a world run on that kind, unless they are about files of this machine."""
    mark, only = metafunc.definition.get_closest_marker("on_both_lakes"), metafunc.config.getoption("--lake")
    if only == "s3" and metafunc.definition.get_closest_marker("on_local_lake"):
        only = "local"
    if "lake" not in metafunc.fixturenames or (mark is None and only is None):
        return
    slow = () if mark is None or mark.kwargs.get("fast") or only else (pytest.mark.slow,)
    kinds = ["local", pytest.param("s3", marks=slow)] if only is None else [only]
    metafunc.parametrize("lake", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def lake(request: pytest.FixtureRequest) -> str:
    """What kind of lake the test's world is on."""
    return getattr(request, "param", "local")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """With NO_SKIPS (as in CI) a test that is skipped fails: else nobody would see that it no longer runs."""
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail") and NOT_ALLOWED not in str(report.longrepr)
    if skipped and os.environ.get("NO_SKIPS"):
        report.outcome, report.longrepr = "failed", f"skipped, which NO_SKIPS forbids: {report.longrepr}"
    return report


def settings_in(home: Path, **more: str) -> Settings:
    """Settings of an installation in `home` that uses the JARs of this checkout."""
    home.mkdir(parents=True, exist_ok=True)
    jars = PROJECT_ROOT / ".lakemark" / "jars"
    places = {"LAKEMARK_HOME": str(home), "LAKEMARK_JARS": str(jars), "LAKEMARK_SPARK_WARM_UP_BATCHES": "0"}
    own = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}  # another stack's, maybe
    return Settings.from_environment({**own, **places, **more})


def stack_in(home: Path, **more: str) -> Stack:
    """Services of an installation in `home`, at free ports that it keeps: several suites may run at once, and nobody
    else takes a broker's port while the broker is dead."""
    settings, chosen = settings_in(home, **more), home / "ports.json"
    if not chosen.exists():
        with ExitStack() as probes:
            sockets = {name: probes.enter_context(socket.create_server(("127.0.0.1", 0))) for name in PORTS}
            chosen.write_text(json.dumps({name: socket_.getsockname()[1] for name, socket_ in sockets.items()}))
    return Stack.of(settings)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = stack_in(tmp_path_factory.mktemp("services")).with_lake("s3")  # Spark's server serves local lakes as well
    try:
        stack.up(print, SERVICES)
        stack.settings.tell_libraries()
        yield stack
    finally:
        stack.down()


@contextmanager
def lossy_stack(home: Path, slower: float = 0.0) -> Iterator[tuple[Stack, LossyStore]]:
    """Services of their own whose lake lies behind a proxy: all of them, and every command, reach it that way alone.
    This process goes to the store itself: libraries that wait for an answer keep Python's lock, so that the proxy could
    not give one."""
    stack = stack_in(home).with_lake("s3")
    with lossy_store(stack.store.url, slower) as proxy, pytest.MonkeyPatch.context() as patched:
        for name, text in stack.store.environment.items():
            patched.setenv(name, text)
        connection.forget()
        behind = {**stack.settings.environment, "AWS_ENDPOINT_URL_S3": proxy.url}
        stack = replace(stack, settings=Settings.from_environment(behind))
        try:
            stack.up(print, SERVICES)
            yield stack, proxy
        finally:
            stack.down()
            connection.forget()


@pytest.fixture
def world(stack: Stack, tmp_path: Path, lake: str) -> World:
    return world_in(tmp_path, stack, lake)


@pytest.fixture
def zombies() -> Iterator[list[subprocess.Popen]]:
    """Processes that are ended after the test, whatever happens."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        end(process)


def world_in(folder: Path, stack: Stack, lake: str = "local", **more: str) -> World:
    """A world whose lake and pipeline files lie in `folder`; or its lake on the stack's store, under a prefix of its
    own. Args: more: variables of its environment."""
    (folder / "pipelines").mkdir(exist_ok=True, parents=True)
    place = str(folder / "lake") if lake == "local" else f"s3://{BUCKET}/{uuid.uuid4().hex}"
    places = {"LAKEMARK_LAKE": place, "LAKEMARK_PIPELINES": str(folder / "pipelines")}
    found = {name: stack.settings.environment.get(name, text) for name, text in stack.addresses(SERVICES).items()}
    settings = settings_in(stack.settings.home, **{**found, **places, **more})
    return World(stack.broker.bootstrap_servers, settings=settings)
