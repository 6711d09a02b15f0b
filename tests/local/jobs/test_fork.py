"""A job that is a fork of its caller does what one does that was started by itself.

Each test runs in a process of its own: this one has threads, which no fork would have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from include.jobs.fork import can_fork
from include.settings import PROJECT_ROOT
from tests.support.silent_server import silent_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux can a child end with its parent")
_BEGIN = """
import json, logging, os, sys
from pathlib import Path
from include.jobs.fork import can_fork, fork_job, import_job
import_job()
"""


def _script(text: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN + text, *arguments],
        cwd=PROJECT_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def _job(folder: Path, name: str) -> tuple[list[str], dict[str, str], Path]:
    """Arguments, environment and journal of a job for a pipeline that is not there."""
    (folder / "pipelines").mkdir(exist_ok=True)
    journal = folder / f"{name}.jsonl"
    variables = {"LAKEMARK_HOME": str(folder), "LAKEMARK_PIPELINES": str(folder / "pipelines")}
    arguments = ["--pipeline", "absent", "--until-caught-up", "--journal", str(journal)]
    return arguments, {**os.environ, **variables}, journal


def test_a_forked_job_reports_as_a_started_one_does(tmp_path: Path) -> None:
    arguments, environment, by_itself = _job(tmp_path, "started")
    command = [sys.executable, "-m", "spark_jobs.merge_job", *arguments]
    started = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False)
    arguments, environment, forked = _job(tmp_path, "forked")
    script = _script(
        """
logging.basicConfig(filename=sys.argv[3], force=True, level=logging.DEBUG)  # the parent's own log
os.environ["LAKEMARK_TEST_OF_THE_PARENT"] = "1"
sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1) for fd in (1, 2))  # as Airflow's task has them
job = fork_job(json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path("/"))
said = b"".join(iter(lambda: job.stdout.read(1 << 16), b""))
code = job.wait()
job.kill()  # after its end this does nothing
print(json.dumps([code, said.decode()]))
""",
        json.dumps(arguments),
        json.dumps(environment),
        str(tmp_path / "parent.log"),
    )
    code, said = json.loads(script.communicate(timeout=60)[0])
    assert (code, said) == (started.returncode, started.stderr)
    assert code == 12
    assert forked.read_text() == by_itself.read_text()
    assert "absent" in said
    assert (tmp_path / "parent.log").read_text() == ""  # what the job logs is the job's


def test_a_forked_job_ends_with_its_parent(tmp_path: Path) -> None:
    arguments, environment, _ = _job(tmp_path, "forked")
    silent, address = silent_server()  # the job waits for its answer
    (tmp_path / "pipelines" / "absent.yaml").write_text(
        f"""
name: absent
source: {{bootstrap_servers: "{address}", topics: [t], schema: "id BIGINT, seq BIGINT"}}
change: {{keys: [id], order_by: [seq]}}
target: {{table: "lake://silver/absent"}}
"""
    )
    script = _script(
        """
job = fork_job(json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path("/"))
print(job.pid, flush=True)
job.wait()
""",
        json.dumps(arguments),
        json.dumps(environment),
    )
    assert script.stdout is not None
    job = psutil.Process(int(script.stdout.readline()))
    wait_until(lambda: {"spark_jobs.merge_job", "absent"} <= set(" ".join(job.cmdline()).split()))  # as `ps` shows it
    script.kill()
    script.wait()
    wait_until(lambda: not job.is_running() or job.status() == "zombie")
    silent.close()


def test_a_process_with_threads_is_not_forked() -> None:
    script = _script(
        """
import threading
before = can_fork()
there = threading.Event()
threading.Thread(target=there.wait).start()
print(json.dumps([before, can_fork()]))
there.set()
"""
    )
    assert json.loads(script.communicate(timeout=60)[0]) == [True, False]


def test_a_process_that_has_not_imported_the_job_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "spark_jobs.merge_job", raising=False)
    assert not can_fork()
