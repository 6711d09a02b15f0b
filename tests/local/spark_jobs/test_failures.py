"""What an attempt's error may say. By its commit point, the attempt knows whether anything may have landed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import NumberFormatException

import spark_jobs.attempt.attempt
import spark_jobs.attempt.reading
import spark_jobs.tables.append
from include.pipeline_file import Pipeline
from include.protocol.batch import Batch, BatchKey
from include.protocol.counts import SourceCounts
from include.protocol.errors import (
    LakemarkError,
    OutcomeUnknownError,
    RetryableError,
    StoreRefuses,
    TerminalError,
    error_from_facts,
)
from include.protocol.ledger_events import BatchPlanned
from include.protocol.ranges import OffsetRange
from include.settings import Settings
from spark_jobs.attempt.attempt import Attempt
from spark_jobs.attempt.content import Content, Part
from spark_jobs.attempt.work import Work
from spark_jobs.changes.kept_rows import KeptRows
from spark_jobs.changes.records import Volume
from spark_jobs.engine.failures import classed, is_conflict, is_same_marker, is_short_of_memory
from tests.support.batches import landed

SAID = [
    *("No space left on device", "Permission denied", "DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_TRANSACTION"),
    *("Service: S3, Status Code: 403", "Service: S3, Status Code: 500"),
    *("KAFKA_DATA_LOSS", "FILE_NOT_EXIST", "DELTA_CANNOT_MODIFY_APPEND_ONLY", "UNABLE_TO_ACQUIRE_MEMORY"),
]
PYTHON = "org.apache.spark.api.python.PythonException: Traceback (most recent call last): ValueError: {}"
PARTS = {"what": "w", "where": "x", "expected": "y", "found": "z", "action": "a"}
LOST = ConnectionError("the answer was lost")
BATCH = Batch("p__landing", 1, 0, (OffsetRange("orders", 0, 0, 3),), {"orders": "id-1"}, "c")


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        OSError("No space left on device"),
        OSError("Read-only file system"),
        RetryableError(**PARTS),
        ValueError("anything"),
    ],
    ids=str,
)
def test_i6_once_the_commit_may_be_there_no_error_says_that_nothing_landed(error: Exception) -> None:
    before = classed(error, pipeline="p", where="w", phase="archive", may_have_landed=False)
    after = classed(error, pipeline="p", where="w", phase="archive", may_have_landed=True)
    assert isinstance(before, RetryableError | TerminalError)
    assert isinstance(after, OutcomeUnknownError | TerminalError)
    assert "nothing landed" not in str(after)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("frame", ["[USER_RAISED_EXCEPTION] {}", "[CAST_INVALID_INPUT] '{}' is no BIGINT", PYTHON])
def test_what_a_record_says_makes_no_other_error(said: str, frame: str) -> None:
    """A transform or a cast quotes the record on which it fails. It may quote Spark's and Delta's own words, too."""
    error = RuntimeError("Job aborted: [TASK_WRITE_FAILED] " + frame.format(f"{said} SECRET"))
    found = classed(error, pipeline="p", where="w", phase="merge", may_have_landed=False)
    assert (type(found), found.what) == (RetryableError, "the attempt failed while it did merge")
    assert "SECRET" not in str(found)
    assert "SECRET" in found.evidence
    assert not (is_same_marker(error) or is_conflict(error) or is_short_of_memory(error))


@pytest.mark.parametrize("said", ["No space left on device", "Disk quota exceeded", "Read-only file system"])
def test_the_error_of_a_disk_says_only_that(said: str) -> None:
    """Around these words there may be anything. The task's log has all of it."""
    found = classed(OSError(f"{said}: /lake/SECRET"), pipeline="p", where="w", phase="merge", may_have_landed=False)
    assert found.found == said
    assert "SECRET" in found.evidence


_S3A = "(org.apache.hadoop.fs.s3a.{}) getFileStatus on s3://lake/t: S3Exception: {}"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            _S3A.format("AWSBadRequestException", "Bad Request (Service: S3, Status Code: 400, Request ID: null)"),
            StoreRefuses,
        ),
        ("(java.nio.file.AccessDeniedException) s3://lake/t: Forbidden (Service: S3, Status Code: 403)", StoreRefuses),
        (_S3A.format("UnknownStoreException", "NoSuchBucket (Service: S3, Status Code: 404)"), StoreRefuses),
        (_S3A.format("AWSUnsupportedFeatureException", "(Service: S3, Status Code: 501)"), StoreRefuses),
        ("[TASK_WRITE_FAILED] s3://lake/t: AccessDeniedException (Service: S3, Status Code: 403)", StoreRefuses),
        (_S3A.format("AWSStatus500Exception", "(Service: S3, Status Code: 500)"), OutcomeUnknownError),
        (_S3A.format("AWSServiceThrottledException", "(Service: S3, Status Code: 503)"), OutcomeUnknownError),
        ("java.io.IOException: LAKEMARK_UNKNOWN: the store gave no clear answer", OutcomeUnknownError),
    ],
)
def test_what_an_object_store_answers_spark_is_told_as_that(said: str, kind: type[LakemarkError]) -> None:
    """Seen with hadoop-aws 3.5.0; the answer to a HEAD has no code, so a wrong login looks like a missing right."""
    found = classed(RuntimeError(said), pipeline="p", where="w", phase="merge", may_have_landed=True)
    assert type(found) is kind
    assert "the lake's store" in found.what
    assert "folder" not in found.in_full


@pytest.mark.parametrize("may_have_landed", [True, False])
def test_a_file_that_spark_cannot_read_is_named_and_so_is_the_way_out(may_have_landed: bool) -> None:
    """The disk may only be slow to answer, so it is tried again. A damaged file fails each time."""
    said = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:/lake/t/part-1.snappy.parquet.  "
        "SQLSTATE: KD001\n\nJVM stacktrace:\njava.lang.RuntimeException: file:/lake/t/part-1.snappy.parquet is not a "
        "Parquet file (length is too low: 0)"
    )
    found = classed(RuntimeError(said), pipeline="p", where="w", phase="merge", may_have_landed=may_have_landed)
    assert isinstance(found, OutcomeUnknownError if may_have_landed else RetryableError)
    assert found.found == "/lake/t/part-1.snappy.parquet"
    assert "If this file fails there, too, then it is damaged" in found.action
    assert "lakemark reset p --from earliest" in found.action


def test_a_commit_that_delta_refuses_has_not_landed() -> None:
    refused = Exception("DELTA_CONCURRENT_APPEND")
    found = classed(refused, pipeline="p", where="w", phase="merge", may_have_landed=True)
    assert type(found) is RetryableError


def test_a_table_that_may_only_be_appended_to_is_not_tried_again_and_again() -> None:
    """A Replace takes rows back, so it fails in the same way for ever."""
    error = RuntimeError("[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is configured to only allow appends.")
    found = classed(error, pipeline="p", where="w", phase="archive", may_have_landed=False)
    assert isinstance(found, TerminalError)
    assert "UNSET TBLPROPERTIES" in found.action


@pytest.fixture
def landing(tmp_path: Path) -> Attempt:
    """An attempt at a planned batch of a landing; without Spark, whose part the test plays."""
    sections = {
        "source": {"bootstrap_servers": "k:1", "topics": ["orders"], "schema": "id BIGINT"},
        "change": {"keys": ["id"]},
        "target": {"table": "lake://silver/p"},
    }
    pipeline = Pipeline.model_validate(
        {"name": "p", **sections, "archive": "lake://bronze/p", "merge_every": 3}
    ).landing
    assert pipeline is not None
    settings = Settings.from_environment({"LAKEMARK_HOME": str(tmp_path)})

    @contextmanager
    def session() -> Iterator[Any]:
        yield None

    attempt = Attempt(settings, pipeline, BatchKey(1, 0), session, "test", lambda fact: None)
    attempt._ledger.append(lambda state: [BatchPlanned(BATCH)])
    return attempt


def outcome(attempt: Attempt) -> str | None:
    """The outcome that the ledger has."""
    [tried] = attempt._ledger.state().batches[0].attempts
    return tried.outcome


def play(patched: pytest.MonkeyPatch, read: Any = None, append: Any = None) -> None:
    def done(error: Exception | None) -> Any:
        def do(*_: object, **__: object) -> Any:
            if error is not None:
                raise error
            return None

        return do

    counts = SourceCounts(3, quarantined=0, filtered=0, superseded=0, changes=3)
    rows: Any = None
    patched.setattr(Attempt, "_fit", lambda *_: frozenset())
    patched.setattr(Work, "read", done(read))
    patched.setattr(spark_jobs.attempt.reading, "volume_of", lambda *_: Volume(3, 30))
    patched.setattr(Work, "verify_source", lambda *_: None)
    patched.setattr(Content, "part", lambda *_: Part(KeptRows(lambda: rows), counts, "digest"))
    patched.setattr(spark_jobs.tables.append, "ensure", lambda *_: None)
    patched.setattr(spark_jobs.tables.append, "landing", lambda *_, **__: SimpleNamespace(commit=done(append)))


def test_i6_a_landings_lost_answer_is_an_unknown_outcome(landing: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, append=LOST)
    with pytest.raises(OutcomeUnknownError, match="does not know whether its commit landed") as failure:
        landing.run()
    assert "the answer was lost" in failure.value.evidence
    assert outcome(landing) == "OutcomeUnknownError"


def test_i6_before_its_commit_point_nothing_of_a_landing_has_landed(
    landing: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, read=LOST)
    with pytest.raises(RetryableError, match="nothing landed"):
        landing.run()


def test_i6_a_landing_whose_answer_is_lost_asks_its_archive(landing: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit landed, and its answer did not arrive."""
    play(monkeypatch, append=LOST)
    looks = iter([(None, None)])
    there = landed(BATCH)
    monkeypatch.setattr(spark_jobs.attempt.attempt, "landed_and_marker", lambda *_: next(looks, (0, there)))
    assert landing.run().outcome == "already_applied"


def test_i6_a_ledger_that_hears_nothing_hides_no_error(landing: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the outcome of a batch that has landed, nor what went wrong before."""
    play(monkeypatch)
    record = Attempt._record

    def full(attempt: Attempt, event: Any) -> None:
        if hasattr(event, "outcome"):
            raise RetryableError(**{**PARTS, "what": "the ledger could not be written"})
        record(attempt, event)

    monkeypatch.setattr(Attempt, "_record", full)
    with pytest.raises(OutcomeUnknownError, match="the ledger could not be written"):
        landing.run()
    play(monkeypatch, read=ValueError("what went wrong"))
    with pytest.raises(LakemarkError, match="the attempt failed") as failure:
        landing.run()
    assert "what went wrong" in failure.value.evidence


def test_what_may_quote_a_record_is_for_the_tasks_log_only(landing: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the ledger, the page, the run's note and alerts, which get the error's text."""
    quoted = '[CAST_INVALID_INPUT] The value \'ada@example.com\' of the type "STRING" cannot be cast to "INT"'
    play(monkeypatch, read=NumberFormatException(quoted))
    with pytest.raises(RetryableError) as failure:
        landing.run()
    assert "found NumberFormatException [CAST_INVALID_INPUT]" in str(failure.value)
    assert "ada@example.com" in failure.value.in_full
    [attempt] = landing._ledger.state().batches[0].attempts
    for text in (str(failure.value), str(attempt), repr(failure.value)):
        assert "ada@example.com" not in text
    assert error_from_facts(failure.value.facts()).evidence == failure.value.evidence  # as it crosses processes
