"""A job reports by its journal, and nothing else counts as its report: not what it prints, logs or quotes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import include.jobs.runner
import spark_jobs.merge_job
from include.jobs.report import told
from include.jobs.runner import run_job
from include.jobs.spark_command import SparkCommand
from include.lake.stores import lines_at
from include.lake.uri import LakeUri
from include.protocol.batch import BatchKey
from include.protocol.errors import OutcomeUnknownError, TerminalError
from include.settings import Settings
from tests.pure.pipeline_file.test_pipeline_file import GOOD, written

RESULT = {"result": {"batch_id": 0, "outcome": "applied"}}
FORGED = [
    json.dumps(fact)
    for fact in (
        {"progress": "planned"},
        {"result": {"batch_id": 0, "outcome": "forged"}},
        {"error": "RetryableError", "kind": "retryable", "what": "forged", "where": "", "expected": "", "found": ""},
    )
]
# A job that says `RESULT`, as `say` does, and is noisy beside it: itself, and by a process that it has forked.
NOISY = """
import json, os, sys
from spark_jobs.merge_job import journal_at
say = journal_at(sys.argv[sys.argv.index("--journal") + 1])
for line in json.loads(os.environ["FORGED"]):
    print("a log line without an end ", end="")
    print(chr(10) + line, flush=True)
    print(line, file=sys.stderr, flush=True)
if os.fork() == 0:
    print(json.loads(os.environ["FORGED"])[1], flush=True)
    os._exit(0)
os.wait()
os.write(1, b"\\xff\\xfe not UTF-8\\n")
say({"progress": json.loads(os.environ["FORGED"])[1] + chr(10) + json.loads(os.environ["FORGED"])[1]})
say(json.loads(os.environ["SAYS"]))
print("no line", end="", flush=True)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An installation whose jobs are `NOISY`."""

    def command(settings: Settings, arguments: list[str]) -> SparkCommand:
        return SparkCommand([sys.executable, "-c", NOISY, *arguments], settings.child_environment())

    monkeypatch.setattr(include.jobs.runner, "spark_command", command)
    return noisy(tmp_path, RESULT, 0)


def noisy(home: Path, says: dict[str, Any], code: int) -> Settings:
    job = {"FORGED": json.dumps(FORGED), "SAYS": json.dumps(says), "CODE": str(code)}
    path = ":".join(filter(None, sys.path))
    written(home, {**GOOD, "name": "p"}, "p")
    places = {"LAKEMARK_HOME": str(home), "LAKEMARK_PIPELINES": str(home), "KAFKA_BROKERS": "k"}
    return Settings.from_environment({**places, **job, "PYTHONPATH": path})


def run(settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    facts: list[dict[str, Any]] = []
    logged: list[str] = []
    return run_job(settings, "p", BatchKey(1, 0), "test", facts.append, logged.append), facts, logged


def test_i6_what_a_job_prints_is_a_log_line_whatever_it_says(settings: Settings) -> None:
    results, facts, logged = run(settings)
    assert results == [RESULT["result"]]
    assert facts == [{"progress": f"{FORGED[1]}\n{FORGED[1]}"}, RESULT]
    assert set(FORGED) < set(logged)
    assert logged.count(FORGED[1]) == 3  # printed, logged, and by the child
    assert logged[-1] == "no line"
    assert sum("not UTF-8" in line for line in logged) == 1


def test_i6_the_text_of_an_error_ends_no_line(settings: Settings, tmp_path: Path) -> None:
    found = f"a record's value\n{FORGED[1]}\r\n{FORGED[2]}\u2028{FORGED[1]}\x85{FORGED[1]}\x0b{FORGED[1]}"
    error = TerminalError(what="w", where="x", expected="y", found=found, action="a")
    with pytest.raises(TerminalError) as failure:
        run(noisy(tmp_path, error.facts(), 12))
    assert failure.value.facts() == error.facts()


def test_i6_a_forged_end_is_not_believed_of_a_job_that_was_killed(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(OutcomeUnknownError, match="exit code 9"):
        run(noisy(tmp_path, {"progress": "merge"}, 9))


def test_the_journal_of_a_job_that_has_ended_leaves_nothing_behind(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    run(settings)
    assert set(tmp_path.iterdir()) == before


def test_i6_what_runs_in_the_job_itself_does_not_print_into_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is so in a cluster's driver: a user's transform is Python in this very process."""

    def find(*_: object) -> None:
        for line in FORGED:
            print(line)
            print(line, file=sys.stderr)
        raise TerminalError(what="w", where="x", expected="y", found=FORGED[1], action="a")

    monkeypatch.setattr(spark_jobs.merge_job, "find_pipeline", find)
    journal = tmp_path / "journal"
    assert spark_jobs.merge_job.main(["--pipeline", "p", "--create-target", "--journal", str(journal)]) == 12
    [line] = lines_at(LakeUri(str(journal))).new()
    assert json.loads(line)["error"] == "TerminalError"


def test_a_driver_on_another_machine_reaches_its_journal_in_the_lake(settings: Settings, tmp_path: Path) -> None:
    where = {
        "LAKEMARK_RUNNER": "spark-submit",
        "LAKEMARK_SPARK_DEPLOY_MODE": "cluster",
        "LAKEMARK_SPARK_MASTER": "yarn",
    }
    there = Settings.from_environment({**settings.child_environment(), **where, "CODE": "0"})
    assert run(there)[0] == [RESULT["result"]]
    assert list((Path(str(there.lake)) / "_lakemark" / "jobs").iterdir()) == []


def test_a_reason_that_a_job_reports_is_told() -> None:
    assert told({"progress": "by Spark", "why": "no deletion vectors"}) == "by Spark: no deletion vectors"
    assert told({"progress": "merge"}) == "merge ..."
