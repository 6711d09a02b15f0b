"""The last of the end-to-end tests: it takes the installation down."""

from __future__ import annotations

import subprocess
import sys

import psutil

from include.installation.supervisor import session_members, supervisor_state
from tests.support.installed import Installed


def test_no_process_turned_to_a_foreign_host(installed: Installed) -> None:
    """No telemetry from Great Expectations, Airflow or anybody else, in all that the earlier tests had it do."""
    assert not installed.foreign_hosts.exists(), installed.foreign_hosts.read_text()
    # The watch works: this is what it writes down.
    asking = (
        "import socket, contextlib\nwith contextlib.suppress(OSError): socket.getaddrinfo('telemetry.example', 443)"
    )
    environment = installed.stack.settings.child_environment()
    subprocess.run([sys.executable, "-c", asking], env=environment, check=True, timeout=60)
    assert installed.foreign_hosts.read_text().startswith("telemetry.example by ")


def listened_at(process: psutil.Process) -> list[str]:
    """Airflow's parts start short-lived processes all the time: one that has ended meanwhile listens at nothing."""
    try:
        return [c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN"]
    except psutil.NoSuchProcess:
        return []


def test_down_ends_all_of_it_and_nothing_else(installed: Installed) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        session = supervisor_state(installed.stack.state_file)["pid"]
        members = session_members(session)
        assert len(members) > 6
        listening = [ip for process in members for ip in listened_at(process)]
        assert listening
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
        installed.lakemark("down")
        assert session_members(session) == []
        assert bystander.poll() is None
        assert (installed.stack.settings.home / "kafka").exists()
        assert installed.lakemark("down") == "nothing ran\n"
    finally:
        bystander.kill()
        bystander.wait()
