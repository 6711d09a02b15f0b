"""Sorts the errors of Spark, Delta and Kafka by what the caller may do."""

from __future__ import annotations

import os
import re

from pyspark.errors import AnalysisException, PySparkException

from include.protocol.errors import (
    LakemarkError,
    OffsetsExpired,
    OutcomeUnknownError,
    RetryableError,
    StoreRefuses,
    TableDamaged,
    TerminalError,
)

# Delta's conflict exceptions share no base class, and over Spark Connect only their text arrives.
_SAME_MARKER = re.compile(r"ConcurrentTransactionException|DELTA_CONCURRENT_TRANSACTION")
_CONFLICT = re.compile(
    r"(ConcurrentAppend|ConcurrentDeleteRead|ConcurrentDeleteDelete|ConcurrentWrite|MetadataChanged|ProtocolChanged)"
    r"Exception|DELTA_(CONCURRENT_(APPEND|DELETE_READ|DELETE_DELETE|WRITE)|METADATA_CHANGED|PROTOCOL_CHANGED)"
    r"|LAKEMARK_OVERTAKEN"  # by `PosixLogStore`
)
_STAGED = re.compile(r"LAKEMARK_STAGED: (\d{20})\.json is in <([^>]+)>")  # as above
_MEMORY = re.compile(r"SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|Not enough memory to build and broadcast")
_TOO_LARGE = re.compile(r"is bigger than spark\.driver\.maxResultSize")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
_NOT_WRITABLE = re.compile(r"Read-only file system|Permission denied|AccessControlException|AccessDeniedException")
_STORE_REFUSES = re.compile(
    r"Service: S3, Status Code: (400|401|403|405|501)|UnknownStoreException|AWSRedirectException|"
    r"NoAuthWithAWSException|CredentialInitializationException|Unable to load credentials"
)
_STORE_AWAY = re.compile(
    r"Service: S3, Status Code|\.s3a\.(AWS|HttpChannel|RemoteFileChanged)\w+Exception|LAKEMARK_UNKNOWN"
)
_APPEND_ONLY = re.compile(r"DELTA_CANNOT_MODIFY_APPEND_ONLY")
_FILE_MISSING = re.compile(r"FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|DELTA_TRUNCATED|DELTA_VERSIONS_NOT_CONTIGUOUS")
_FILE_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.[A-Z_]+\] Encountered error while reading file (?:file:)?(\S+?)\.?\s"
)
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]{3,99}\]")  # Spark's own name of an error
# Names of errors that are about files, the cluster or the table. All others may quote what a record holds.
_ABOUT_NO_RECORD = re.compile(
    r"\[(DELTA_|KAFKA_|LAKEMARK_|TASK_WRITE_FAILED|FAILED_(READ|RENAME|WRITE|CREATE|CLEAR)|UNABLE_TO_ACQUIRE_MEMORY|"
    r"INTERNAL_ERROR|STREAM_FAILED|PATH_|FILE_|SPARK_JOB_CANCELLED|_LEGACY_)"
)
_OF_PYTHON = re.compile(r"PythonException|Traceback \(most recent call last\)")  # a transform's own code has failed
_DATA_LOSS = re.compile(r"OffsetOutOfRangeException|KAFKA_DATA_LOSS|failOnDataLoss|Some data may have been lost")


def _said(error: Exception) -> str:
    """What Spark, Delta or Kafka themselves say; empty if the error may quote a record, or a transform's own words. A
    record that says "No space left on device" must not make a full disk of its error."""
    text = str(error)
    names = _CONDITION.findall(text)
    quotes = any(not _ABOUT_NO_RECORD.match(name) for name in names) or _OF_PYTHON.search(text)
    return "" if quotes else text


def is_same_marker(error: Exception) -> bool:
    """Whether another attempt committed this batch while this one was about to (I5)."""
    return bool(_SAME_MARKER.search(_said(error)))


def is_conflict(error: Exception) -> bool:
    """Whether other work on the table was faster; then nothing landed."""
    return bool(_CONFLICT.search(_said(error)))


def staged_commit(error: Exception) -> tuple[int, str] | None:
    """The version of a commit that is only written beside the log, and its file there (see `marking.staged`); None if
    the error says something else."""
    found = _STAGED.search(_said(error))
    return None if found is None else (int(found[1]), found[2])


def is_too_large(error: Exception) -> bool:
    """Whether Spark refused to bring so many rows to this process."""
    return bool(_TOO_LARGE.search(_said(error)))


def is_short_of_memory(error: Exception) -> bool:
    """Whether a join did not fit into memory; then nothing landed. A join that sorts uses the disk."""
    return bool(_MEMORY.search(_said(error)))


def classed(error: Exception, pipeline: str, where: str, phase: str, may_have_landed: bool) -> LakemarkError:
    """Turns an attempt's error into one of our classes, which says what the caller may do.

    Args:
        where: the batch, table or command, with the pipeline's name.
        phase: what the attempt was doing, for people.
        may_have_landed: it had reached its commit point. Then no error may say that nothing landed, except one in which
            Delta refuses the commit (I6).
    """
    tried_again = OutcomeUnknownError if may_have_landed else RetryableError
    if isinstance(error, RetryableError):
        return tried_again(**error.parts())
    if isinstance(error, LakemarkError):
        return error
    found, evidence = kind_of(error), _first_lines(error)
    then = (
        "the next attempt settles it from the target's log first"
        if may_have_landed
        else "nothing landed in the target; the next attempt starts again from the same plan"
    )
    if _DATA_LOSS.search(_said(error)):
        return OffsetsExpired(
            what="Kafka lost records of a planned range while they were read",
            where=where,
            expected="Kafka to hold every planned range in full",
            found=evidence,
            action="nothing was skipped and nothing will be: see the topic's retention and this pipeline's lag",
        )
    if is_conflict(error):
        return RetryableError(
            what="another writer changed the target at the same time",
            where=where,
            expected="no conflicting commit",
            found=evidence,
            action="the next attempt reads the new version; if it persists, find the other writer",
        )
    if full := _NO_SPACE.search(_said(error)):
        return tried_again(
            what="the disk is full",
            where=f"{where}, while it did {phase}",
            expected="room for the batch's files, or for Spark's scratch files",
            found=full.group(),
            action=f"free some space; {then}",
            evidence=evidence,
        )
    if refused := _STORE_REFUSES.search(_said(error)):
        return StoreRefuses(
            what="the lake's store refuses a request of Spark's",
            where=f"{where}, while it did {phase}",
            expected="a login that the store knows, with the rights that docs/object-store.md names",
            found=refused.group(),
            action="give Spark's own login these rights: its server, or every machine of its cluster, finds it by the "
            "usual ways of AWS in its own environment, and may have to be started again (`lakemark validate` tells of "
            f"this process's login); then clear the task with what follows it; {then}",
            evidence=evidence,
        )
    if _STORE_AWAY.search(_said(error)):
        return tried_again(
            what="the lake's store does not answer Spark",
            where=f"{where}, while it did {phase}",
            expected="an answer of the store",
            found=found,
            action=f"wait until the store answers again; {then}",
            evidence=evidence,
        )
    if closed := _NOT_WRITABLE.search(_said(error)):
        return TerminalError(
            what="a folder is not writable",
            where=f"{where}, while it did {phase}",
            expected="a lake that the user of the Spark server may write to, and the user of this job (user id "
            f"{os.geteuid()})",
            found=closed.group(),
            action=f"make it writable (the task's log says which), then clear the task with what follows it; {then}",
            evidence=evidence,
        )
    if _APPEND_ONLY.search(_said(error)):
        return TerminalError(
            what="a table may only be appended to, and rows of it have to be replaced",
            where=f"{where}, while it did {phase}",
            expected="tables without the property `delta.appendOnly`: changes replace rows, and what never landed is "
            "taken back",
            found=evidence,
            action="`ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')` on the table that this phase writes, "
            f"then clear the task with what follows it; {then}",
        )
    if _FILE_MISSING.search(_said(error)):
        return TableDamaged(
            what="a file of the table is missing",
            where=f"{where}, while it did {phase}",
            expected="every file of the table's versions that the batch reads: the newest, and the one that a table is "
            "made anew from",
            found=_first_lines(error),
            action="bring the file back from a copy; without one, move the folder of the table that lacks it away, and "
            f"`lakemark reset {pipeline} --from earliest --reason ...` fills a new one from Kafka",
        )
    if unreadable := _FILE_UNREADABLE.search(_said(error)):
        return tried_again(
            what="a file of a table cannot be read",
            where=f"{where}, while it did {phase}",
            expected="a file that is whole, and a disk that answers",
            found=unreadable.group(1),
            action=f"{then}. If this file fails there, too, then it is damaged, or the deletion vector "
            "(`deletion_vector_*.bin`) that belongs to it: bring both back from a copy; without one, move this table's "
            f"folder away, and `lakemark reset {pipeline} --from earliest --reason ...` fills a new one from Kafka",
            evidence=evidence,
        )
    if isinstance(error, AnalysisException):
        return TerminalError(
            what="Spark does not accept what the pipeline asks for",
            where=f"{where}, while it did {phase}",
            expected="schema and conditions of the pipeline file that fit Spark and the tables",
            found=evidence,  # Spark looks at names and types here, not at records
            action="fix the pipeline file (`lakemark explain` shows what is built from it), then clear the task with "
            "what follows it",
        )
    if may_have_landed:
        return OutcomeUnknownError(
            what="the attempt does not know whether its commit landed",
            where=where,
            expected=f"an answer to the commit, while it did {phase}",
            found=found,
            action=f"nothing by hand: {then}",
            evidence=evidence,
        )
    return RetryableError(
        what=f"the attempt failed while it did {phase}",
        where=where,
        expected="this phase to end",
        found=found,
        action=f"{then}; the task's log says more",
        evidence=evidence,
    )


def kind_of(error: Exception) -> str:
    """The kind of an error, without its text, which may quote records: what could not be cast, for instance."""
    if type(error).__module__.startswith("grpc"):
        return _first_lines(error)  # about the connection
    known = _CONDITION.search(str(error))
    return f"{type(error).__name__} {known.group()}" if known else type(error).__name__


def is_of_rows(error: Exception) -> bool:
    """Whether Spark failed in an expression over rows: it fails again at every try, until somebody fixes it."""
    marks = ("== SQL", "== DataFrame ==", "PythonException", "SparkArithmeticException", "PatternSyntaxException")
    return isinstance(error, PySparkException) and any(mark in str(error) for mark in marks)


def text_of(error: Exception) -> str:
    """What an error says, without the JVM's stack. It may quote records."""
    return str(error).split("\n\nJVM stacktrace")[0].strip()


def _first_lines(error: Exception) -> str:
    text = text_of(error) or type(error).__name__
    return f"{type(error).__name__}: {text[:1500]}"
