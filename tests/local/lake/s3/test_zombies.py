"""A writer on an object store that stands still while the request that decides is on its way, and goes on long after. A
real process, no Spark; a proxy holds its request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from include.lake.delta_tables import commit_markers, open_table
from include.lake.ledger import Ledger
from include.lake.s3 import connection
from include.lake.upkeep import keep_appended
from include.lake.uri import LakeUri
from include.protocol.ledger_events import AttemptStarted, BatchPlanned
from include.settings import PROJECT_ROOT
from tests.support.batches import batch
from tests.support.lossy_store import LossyStore
from tests.support.s3_server import S3Server
from tests.support.stopped import resumed

HOUR = 3600


@pytest.fixture
def ledger(store: LossyStore, server: S3Server, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """This process goes to the store itself: only the writer's requests are held."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    connection.forget()
    ledger = Ledger(on_s3 / "_lakemark/ledger/p")
    ledger.append(lambda state: [BatchPlanned(batch(0))])
    return ledger


def asleep_in_its_commit(
    kind: str, ledger: Ledger, store: LossyStore, zombies: list[subprocess.Popen]
) -> tuple[subprocess.Popen, int]:
    """A writer that is stopped while its request to create a commit is at the proxy. Returns it, and the version."""
    table = open_table(ledger.uri)
    assert table is not None
    held = store.holds(rf"PUT .*{table.version() + 1:020}\.json")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT), "AWS_ENDPOINT_URL_S3": store.url}
    command = [sys.executable, "-m", "tests.support.late_writers", kind, str(ledger.uri)]
    process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    zombies.append(process)
    assert held.reached.wait(60)
    process.send_signal(signal.SIGSTOP)
    return process, table.version() + 1


def others_commit(ledger: Ledger) -> None:
    for n in range(12):
        ledger.append(lambda state, n=n: [AttemptStarted(1, 0, f"a{n}", "h", "cli")])


def an_hour_goes_by(ledger: Ledger, server: S3Server) -> None:
    """The log's clean-up removes what is older than it is kept."""
    then = time.time() - HOUR
    for file in (server.objects / str(ledger.uri).removeprefix("s3://") / "_delta_log").iterdir():
        os.utime(file, (then, then))
    keep_appended(ledger.uri, 168)


def let_go(store: LossyStore, process: subprocess.Popen) -> tuple[int, str]:
    for held in store._held:
        held.gone.set()
    return resumed(process, psutil.Process(process.pid))


@pytest.mark.parametrize("cleaned", [False, True], ids=["the log is there", "the log was cleaned"])
def test_i1_an_event_whose_request_was_late_is_recorded_before_it_is_acknowledged(
    ledger: Ledger, store: LossyStore, server: S3Server, zombies: list[subprocess.Popen], cleaned: bool
) -> None:
    process, _ = asleep_in_its_commit("appends", ledger, store, zombies)
    others_commit(ledger)
    if cleaned:  # the name that the sleeper wants is free again
        an_hour_goes_by(ledger, server)
    code, said = let_go(store, process)
    assert (code, said.strip()) == (0, "[0, 12]"), "it decides anew on what others have recorded"
    attempts = [row["attempt_id"] for row in ledger.rows() if row["event"] == "attempt_started"]
    assert attempts == [*(f"a{n}" for n in range(12)), "zombie"]
    assert [row["sequence"] for row in ledger.rows()] == list(range(14))


@pytest.mark.parametrize("cleaned", [False, True], ids=["the log is there", "the log was cleaned"])
def test_i5_a_fence_whose_request_was_late_is_none(
    ledger: Ledger, store: LossyStore, server: S3Server, zombies: list[subprocess.Popen], cleaned: bool
) -> None:
    process, _ = asleep_in_its_commit("fences", ledger, store, zombies)
    others_commit(ledger)
    if cleaned:
        an_hour_goes_by(ledger, server)
    code, said = let_go(store, process)
    assert (code, said.strip()) == (0, "False")
    now = open_table(ledger.uri)
    assert now is not None and now.transaction_version("zombie") is None
    assert commit_markers(now, {"zombie": 7}, "{}")
