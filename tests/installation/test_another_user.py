"""What another user of the machine can do with an installation of `lakemark up`: only what docs/security.md says."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from include.protocol.errors import TerminalError
from spark_jobs.engine.session import open_session
from tests.conftest import NOT_ALLOWED
from tests.support.installed import Installed
from tests.support.world import changes

NOBODY = 65534


@contextmanager
def reachable(folder: Path) -> Iterator[None]:
    """pytest's own folders are closed to others: opens the way to one, not the folder itself."""
    before = {parent: parent.stat().st_mode for parent in folder.parents}
    for parent in before:
        parent.chmod(stat.S_IMODE(before[parent]) | 0o011)
    try:
        yield
    finally:
        for parent, mode in before.items():
            parent.chmod(stat.S_IMODE(mode))


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_ALLOWED} become another user")
    ids = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **ids)


def test_no_file_is_for_others(installed: Installed) -> None:
    """The database, task logs, the lake with its quarantine, the broker's data, Spark's event log."""
    world = installed.world
    topic = world.topic()
    pipeline = world.pipeline(topic, "private_rows", archive="lake://bronze/private_rows")
    dag_id = installed.dag(pipeline)
    world.produce(topic, [*changes(range(10), 1), b"{"], 1)
    assert installed.run(dag_id)[1] == "success"
    home = installed.stack.settings.home
    # Of the lake only what no test has written itself, as the user who runs it.
    by_services = [*(home / part for part in ("airflow", "kafka", "logs", "spark")), home / "addresses.json"]
    by_services += [folder for folder in (home / "lake").rglob(pipeline.name) if folder.is_dir()]
    files = [file for root in by_services for file in (root, *root.rglob("*")) if not file.is_symlink()]
    kinds = [
        "airflow/airflow.db",
        "airflow/logs/dag_id=lakemark__private_rows",
        "lake/_lakemark/quarantine/private_rows",
    ]
    kinds += ["lake/bronze/private_rows", "kafka/", "spark/events", "spark/token", "logs/airflow-scheduler.log"]
    for kind in kinds:
        assert [file for file in files if str(file.relative_to(home)).startswith(kind)], kind
    # Spark opens its event log to the group itself. It lies in a folder that is closed to all.
    events = home / "spark" / "events"
    closed = [file for file in files if events not in file.parents]
    assert [f"{oct(file.stat().st_mode)} {file}" for file in closed if file.stat().st_mode & 0o077] == []
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_another_user_reads_and_starts_nothing(installed: Installed) -> None:
    home = installed.stack.settings.home
    with reachable(home):
        assert as_nobody("ls", "-d", str(home)).returncode == 0  # the way there is open
        found = as_nobody("find", str(home))
        assert found.stdout.split() == [str(home)]
        assert "Permission denied" in found.stderr
        for file in ("airflow/airflow.db", "airflow/secrets.json", "spark/token", "addresses.json"):
            assert as_nobody("cat", str(home / file)).returncode != 0
    settings = installed.world.settings
    assert settings.spark_token
    shown = as_nobody("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null").stdout
    assert "connect_server.py" in shown  # it sees the commands of all processes
    for secret in (settings.spark_token, installed.stack.airflow.password):
        assert secret not in shown


@pytest.mark.parametrize("token", [None, "a guess"])
def test_spark_takes_no_client_without_its_token(installed: Installed, token: str | None) -> None:
    settings = installed.world.settings
    wrong = type(settings)(**{**vars(settings), "spark_token": token})
    said = "does not take this client .*: expected the token that the server was started with"
    with pytest.raises(TerminalError, match=said) as refused, open_session(wrong, settings.spark_remote, None):
        pass
    assert str(token) not in str(refused.value)
    with open_session(settings, settings.spark_remote, None) as spark:
        assert spark.range(3).count() == 3


def test_airflow_and_the_page_ask_for_a_login(installed: Installed) -> None:
    for path in ("/lakemark/api/pipelines", "/api/v2/dags", "/api/v2/connections"):
        assert requests.get(f"{installed.stack.airflow.url}{path}", timeout=30).status_code in (401, 403), path
