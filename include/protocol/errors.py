"""Errors, classed by what the caller may do. Whatever else is raised is a bug or an unknown outcome.

A message says what happened, where, what was expected and found, and what to do. `AlreadyApplied` and `Idle` are
results (see `guard` and `planning`), not errors.
"""

from __future__ import annotations

from typing import Any, ClassVar

from include.protocol.json_data import JsonObject

ERRORS_BY_NAME: dict[str, type[LakemarkError]] = {}  # every class below: who defines one need not remember to add it


class LakemarkError(Exception):
    """Base of all errors that Lakemark raises on purpose; carries its parts for machines.

    Args:
        what: what happened. where: pipeline, batch, file or field. expected, found: the two that disagree.
        action: what a person (or the scheduler) should do now.
    """

    kind: ClassVar[str]  # "retryable" | "outcome_unknown" | "terminal"
    exit_code: ClassVar[int]

    def __init_subclass__(cls) -> None:
        assert cls.__name__ not in ERRORS_BY_NAME, "a class crosses processes by its name"
        ERRORS_BY_NAME[cls.__name__] = cls

    def __init__(self, *, what: str, where: str, expected: str, found: str, action: str) -> None:
        self.what, self.where, self.expected, self.found, self.action = what, where, expected, found, action
        super().__init__(f"{what} ({where}): expected {expected}; found {found}. What to do: {action}")

    def facts(self) -> JsonObject:
        """The error as JSON data: error (class name), kind, what, where, expected, found, action."""
        return {"error": type(self).__name__, "kind": self.kind, **self.parts()}

    def parts(self) -> dict[str, str]:
        """What the error was made of, by name."""
        return {name: getattr(self, name) for name in ("what", "where", "expected", "found", "action")}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts())


def _rebuild(cls: type[LakemarkError], facts: JsonObject) -> LakemarkError:
    return cls(**{name: facts[name] for name in ("what", "where", "expected", "found", "action")})


class RetryableError(LakemarkError):
    """Nothing landed; the same call may succeed later."""

    kind = "retryable"
    exit_code = 10


class OutcomeUnknownError(LakemarkError):
    """Something may have landed; read the target's log (settle) before anything is tried again (I6)."""

    kind = "outcome_unknown"
    exit_code = 11


class TerminalError(LakemarkError):
    """A person must act; a retry would fail in the same way."""

    kind = "terminal"
    exit_code = 12


class PipelineFileError(TerminalError):
    """A pipeline file is not valid."""


class SuiteError(TerminalError):
    """A quality suite is not valid."""


class TransformError(TerminalError):
    """A transform cannot be done."""


class QualityGate(TerminalError):
    """A batch broke rules that let nothing of it land; it stays planned."""


class SchemaChanged(TerminalError):
    """The pipeline file and the table disagree about columns in a way that a person has to decide."""


class RangeGap(TerminalError):
    """An attempt at batch n while the target's marker is below n-1 (I4)."""


class BatchMismatch(TerminalError):
    """The target holds batch n with other ranges than the plan's (I3)."""


class FencedGeneration(TerminalError):
    """The attempt belongs to a generation that a reset or restore has ended (I5)."""


class OffsetsExpired(TerminalError):
    """Kafka no longer holds a range in full (I7)."""


class TopicRecreated(TerminalError):
    """A topic of that name exists, but it is another one than the plan's (I7)."""


class LedgerConflict(TerminalError):
    """The ledger's events contradict each other, or contradict the target's marker."""


class LedgerBehindTarget(TerminalError):
    """The target holds batches that the ledger does not know: the ledger was lost or replaced (I10)."""


class TargetBehindLedger(TerminalError):
    """The target lacks batches that the ledger says are committed: it was replaced, or rolled back (I3, I4)."""


class TableDamaged(TerminalError):
    """A table's files cannot be what Delta wrote: one is missing, cut short or not readable."""


class CountsDisagree(TerminalError):
    """The numbers of a commit do not add up (I8)."""


_BY_KIND = {cls.kind: cls for cls in (RetryableError, OutcomeUnknownError, TerminalError)}


def error_from_facts(facts: JsonObject) -> LakemarkError:
    """The error that a job reported as JSON (see `LakemarkError.facts`), as an exception of its own class.

    A class that this code does not know (the job's code may be newer) is what its kind says; without a kind that is
    known, the outcome is unknown.
    """
    known = ERRORS_BY_NAME.get(facts.get("error", ""))
    return _rebuild(known or _BY_KIND.get(facts.get("kind", ""), OutcomeUnknownError), facts)
