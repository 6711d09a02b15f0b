"""A job on a cluster, from outside: what can be read about it, and what happens when the master is away.

The master itself is real in tests/spark/jobs/test_runners.py; here there is none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from include.installation.stack import free_port
from include.jobs.cluster_job import UNREACHABLE, ClusterJob, ClusterWatch, DriverState
from include.protocol.errors import RetryableError
from include.settings import Settings
from tests.pure.pipeline_file.test_pipeline_file import changed, written


@pytest.fixture
def job(tmp_path: Path) -> ClusterJob:
    """A job whose master is away."""
    return ClusterJob(
        "p", "--batch 1", "cli", f"http://127.0.0.1:{free_port(6066)}", "driver-1", str(tmp_path / "journal")
    )


def test_only_whole_lines_of_the_journal_are_read_and_each_once(job: ClusterJob) -> None:
    watch, journal = ClusterWatch(job), Path(job.journal)
    assert watch.look() == (UNREACHABLE, [])
    journal.write_text('{"progress": "read"}\n{"progr')
    assert watch.look()[1] == ['{"progress": "read"}']
    with journal.open("a") as file:
        file.write('ess": "merge"}\n')
    assert watch.look()[1] == ['{"progress": "merge"}']
    assert watch.look()[1] == []


def test_a_master_that_is_away_ends_nothing(job: ClusterJob) -> None:
    assert job.state() == UNREACHABLE
    assert not UNREACHABLE.is_end
    Path(job.journal).write_text("")
    job.end()
    assert not Path(job.journal).exists()


@pytest.mark.parametrize(
    ("name", "is_end", "ending"),
    [
        ("SUBMITTED", False, ...),
        ("RUNNING", False, ...),
        ("FINISHED", True, None),
        ("KILLED", True, "the driver is KILLED"),
        ("FAILED", True, "the driver is FAILED"),
        ("ERROR", True, "the driver is ERROR"),
    ],
)
def test_how_a_driver_does(name: str, is_end: bool, ending: object) -> None:
    state = DriverState(name)
    assert state.is_end == is_end
    if is_end:
        assert state.ending == ending


@pytest.mark.parametrize("name", ["p", "p__landing"])
def test_a_master_that_takes_nothing_is_tried_again_later(tmp_path: Path, name: str) -> None:
    written(tmp_path, {**changed("merge_every", 2), "name": "p", "archive": "lake://bronze/p"}, "p")
    rest = f"http://127.0.0.1:{free_port(6066)}"
    settings = Settings.from_environment(
        {
            "KAFKA_BROKERS": "k",
            "LAKEMARK_HOME": str(tmp_path),
            "LAKEMARK_PIPELINES": str(tmp_path),
            "LAKEMARK_RUNNER": "spark-submit",
            "LAKEMARK_SPARK_MASTER": "spark://127.0.0.1:7077",
            "LAKEMARK_SPARK_DEPLOY_MODE": "cluster",
            "LAKEMARK_SPARK_REST": rest,
        }
    )
    with pytest.raises(RetryableError, match="LAKEMARK_SPARK_REST") as refused:
        ClusterJob.submit(settings, name, ["--batch", "1"], "cli")
    assert rest in str(refused.value)
