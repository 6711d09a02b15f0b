"""The last of the end-to-end tests: it takes the installation down."""

from __future__ import annotations

import subprocess

from include.installation.supervisor import session_members, supervisor_state
from tests.support.installed import Installed


def test_down_ends_all_of_it_and_nothing_else(installed: Installed) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        session = supervisor_state(installed.stack.state_file)["pid"]
        members = session_members(session)
        assert len(members) > 6
        listening = [c.laddr.ip for p in members for c in p.net_connections("inet") if c.status == "LISTEN"]
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
