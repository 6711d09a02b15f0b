from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from include.installation.airflow_home import AirflowHome
from include.installation.jars import fetch_jars, pinned_jars, verify_fetched
from include.installation.java import SUPPORTED, find_java
from include.installation.stack import Stack
from include.installation.supervisor import (
    Service,
    Supervisor,
    abandoned_session,
    end_session,
    session_members,
    supervisor_state,
)
from include.protocol.errors import TerminalError
from include.settings import PROJECT_ROOT, Settings
from tests.support.waiting import wait_until


def test_the_bundled_java_needs_no_system_java(tmp_path: Path) -> None:
    java = find_java("bundled", tmp_path / "java")
    # The module is not in that runtime; the launcher leaves it out, or Java would refuse to start.
    asked = [str(java.binary), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    assert re.search(r'version "25', answer.stderr)


def test_a_java_of_another_version_is_passed_over(tmp_path: Path) -> None:
    binary = tmp_path / "jdk" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    for release, taken in ((11, False), (17, True), (21, True), (25, False)):
        binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}.0.1\"' >&2\n")
        binary.chmod(0o755)
        assert (find_java(str(tmp_path / "jdk"), tmp_path / "shim").home == tmp_path / "jdk") is taken
        assert (release in SUPPORTED) is taken


def test_every_jar_is_pinned_and_here() -> None:
    jars = pinned_jars()
    assert len({(jar.use, jar.file_name) for jar in jars}) == len(jars) > 50
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    # Nothing to fetch: the sums of what `make setup` brought are the pinned ones.
    assert fetch_jars(PROJECT_ROOT / ".lakemark" / "jars", find_java(None, Path()), None) == 0


def test_services_do_not_start_without_their_jars_and_the_advice_brings_them(tmp_path: Path) -> None:
    stack = Stack.of(Settings.from_environment({"LAKEMARK_HOME": str(tmp_path)}))
    with pytest.raises(TerminalError, match="LAKEMARK_JARS=") as refused:
        stack.start(lambda text: None)
    assert not stack.down(), "nothing has started"
    [command] = re.findall("`(LAKEMARK_JARS=.*?)`", str(refused.value))
    shutil.copytree(PROJECT_ROOT / ".lakemark" / "jars", tmp_path / "jars", copy_function=os.symlink)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, capture_output=True)
    verify_fetched(tmp_path / "jars")


def test_a_jar_that_is_not_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = pinned_jars()[0]
    path = tmp_path / jar.use / jar.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"something else")
    monkeypatch.setattr(
        "include.installation.jars._run_ivy", lambda *arguments, **named: None
    )  # the registry served it
    with pytest.raises(TerminalError, match=f"expected sha256 {jar.sha256}"):
        fetch_jars(tmp_path, find_java("bundled", tmp_path / "java"), None)
    assert not path.exists()


def test_settings_take_the_environment_before_what_up_wrote(tmp_path: Path) -> None:
    (tmp_path / "addresses.json").write_text('{"KAFKA_BOOTSTRAP_SERVERS": "up:1", "LAKEMARK_SPARK_REMOTE": "sc://up"}')
    environment = {"LAKEMARK_HOME": str(tmp_path), "KAFKA_BOOTSTRAP_SERVERS": "mine:1"}
    settings = Settings.from_environment(environment)
    assert settings.environment["KAFKA_BOOTSTRAP_SERVERS"] == "mine:1"
    assert settings.spark_remote == "sc://up"
    again = Settings.from_environment(settings.child_environment())
    assert (again.home, again.lake, again.jars) == (settings.home, settings.lake, settings.jars)


@pytest.mark.parametrize(("lake", "expected"), [("/", "/"), ("/data/lake/", "/data/lake"), ("", None)])
def test_the_lake_is_where_the_variable_says(tmp_path: Path, lake: str, expected: str | None) -> None:
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path), "LAKEMARK_LAKE": lake})
    assert str(settings.lake) == (expected or str(tmp_path / "lake"))
    assert str(settings.lake / "silver/orders") == f"{(expected or str(tmp_path / 'lake')).rstrip('/')}/silver/orders"


def test_airflows_secrets_are_made_once_and_are_private(tmp_path: Path) -> None:
    home = AirflowHome(tmp_path / "airflow", 8080)
    home.prepare()
    first = home.environment()
    home.prepare()
    assert home.environment() == first
    for file in ("secrets.json", "passwords.json"):
        assert (home.folder / file).stat().st_mode & 0o077 == 0


def test_a_users_variables_tune_airflow_and_move_none_of_its_places(tmp_path: Path) -> None:
    home = AirflowHome(tmp_path / "airflow", 8080)
    home.prepare()
    plain = home.environment()
    given = {"AIRFLOW__CORE__PARALLELISM": "9", "AIRFLOW__CORE__FERNET_KEY": "x", "AIRFLOW_HOME": "/elsewhere"}
    assert home.environment(given) == {**plain, "AIRFLOW__CORE__PARALLELISM": "9"}


SUPERVISOR = """
import sys
from pathlib import Path
from include.installation.stack import Stack
from include.installation.supervisor import Service, Supervisor
folder = Path(sys.argv[1])
# A service that starts a child in a process group of its own, as Airflow does with tasks, and one that is plain.
stray = [sys.executable, "-c", "import os, time, subprocess; subprocess.Popen(['sleep', '600'], process_group=0); time.sleep(600)"]
Supervisor([Service("stray", stray), Service("plain", ["sleep", "600"])], folder, folder / "state.json").run()
"""  # noqa: E501


def test_a_dead_service_is_restarted_and_the_end_spares_nobody(tmp_path: Path) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path)], cwd=PROJECT_ROOT, start_new_session=True
    )
    state = tmp_path / "state.json"

    def plain() -> int | None:
        facts = supervisor_state(state)
        return facts and facts["services"].get("plain", {}).get("pid")

    try:
        first = wait_until(plain)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: plain() not in (None, first))
        assert supervisor_state(state)["services"]["plain"]["starts"] == 2
        wait_until(lambda: len(session_members(supervisor.pid)) == 4)
        assert abandoned_session(state) is None
        supervisor.kill()  # its services live on, and are still known as its own
        supervisor.wait()
        assert supervisor_state(state) is None
        assert abandoned_session(state) == supervisor.pid
        end_session(supervisor.pid)
        assert abandoned_session(state) is None
        assert session_members(supervisor.pid) == []
        assert supervisor_state(state) is None
    finally:
        end_session(supervisor.pid)
        supervisor.wait()


def test_a_service_that_cannot_prepare_is_not_started(tmp_path: Path) -> None:
    """`before` (a migration) must succeed first; until then it is tried again."""
    flag = tmp_path / "ready"
    service = Service("late", ["sleep", "600"], {}, ["test", "-e", str(flag)])
    supervisor = Supervisor([service], tmp_path, tmp_path / "state.json")
    [kept] = supervisor._kept
    supervisor._keep(kept)
    assert kept.process is None
    flag.touch()
    kept.due = 0
    supervisor._keep(kept)
    assert kept.process is not None
    kept.process.kill()
    kept.process.wait()


def test_up_tells_that_its_services_run_older_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a `git pull` beside running services, "ready" alone would not be true."""
    ours = psutil.Process()
    facts = {"pid": ours.pid, "created": ours.create_time(), "services": {"kafka": {"pid": 1, "starts": 1}}}
    (tmp_path / "supervisor.json").write_text(json.dumps(facts))
    stack = Stack.of(Settings.from_environment({**os.environ, "LAKEMARK_HOME": str(tmp_path)}))
    project = tmp_path / "project"
    file = project / "include" / "lake" / "ledger.py"
    users = project / "include" / "transforms" / "mine.py"
    for path in (file, users):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr("include.installation.stack.PROJECT_ROOT", project)
    said: list[str] = []
    os.utime(file, (1, 1))
    stack.start(said.append, ("kafka",))
    assert said == []
    os.utime(file)
    stack.start(said.append, ("kafka",))
    assert ["lakemark down" in line for line in said] == [True]


def test_a_taken_port_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "ports.json").write_text(
            json.dumps({"kafka": port, "kafka_controller": 1, "spark": 2, "airflow": 3})
        )
        stack = Stack.of(Settings.from_environment({**os.environ, "LAKEMARK_HOME": str(tmp_path)}))
        with pytest.raises(TerminalError, match=f"kafka, 127.0.0.1:{port}"):
            stack.start(print, ("kafka",))
