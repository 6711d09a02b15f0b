"""Errors, grouped by what the caller may do. Any other exception is a bug or an unknown outcome.

A message says what happened and where, what was expected and found, and what to do. `AlreadyApplied` and `Idle` are
results (see `guard` and `planning`), not errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from include.protocol.json_data import JsonObject

_PARTS = ("what", "where", "expected", "found", "action")
ERRORS_BY_NAME: dict[str, type[LakemarkError]] = {}  # every class below adds itself


class LakemarkError(Exception):
    """Base of all errors that Lakemark raises on purpose. It keeps its parts, for programs to read.

    Args:
        what: what happened. where: pipeline, batch, file or field. expected, found: the two that disagree.
        action: what a person (or the scheduler) should do now.
        evidence: values of records, or a text that may quote some. It is only for those who may read the task's log:
            the text of the error goes to more people (the run's note, the page, alerts, the ledger).
    """

    kind: ClassVar[str]  # "retryable" | "outcome_unknown" | "terminal"
    exit_code: ClassVar[int]

    def __init_subclass__(cls) -> None:
        assert cls.__name__ not in ERRORS_BY_NAME, "an error crosses processes by its class name, which must be unique"
        ERRORS_BY_NAME[cls.__name__] = cls

    def __init__(self, *, what: str, where: str, expected: str, found: str, action: str, evidence: str = "") -> None:
        self.what, self.where, self.expected, self.found, self.action = what, where, expected, found, action
        self.evidence = evidence
        super().__init__(f"{what} ({where}): expected {expected}; found {found}. What to do: {action}")

    @property
    def in_full(self) -> str:
        """The message with the evidence, for the task's log and for the person who typed the command."""
        return f"{self}\nEvidence: {self.evidence}" if self.evidence else str(self)

    def facts(self) -> JsonObject:
        """The error as JSON data: error (class name), kind, and the parts of the message."""
        return {"error": type(self).__name__, "kind": self.kind, **self.parts()}

    def parts(self) -> dict[str, str]:
        """The parts of the message, by name: what, where, expected, found, action, and evidence if there is any."""
        parts = {name: getattr(self, name) for name in _PARTS}
        return {**parts, "evidence": self.evidence} if self.evidence else parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.facts())

    @classmethod
    def from_facts(cls, facts: JsonObject) -> LakemarkError:
        """The error whose `facts` these are."""
        return cls(**{name: facts[name] for name in (*_PARTS, "evidence") if name in facts})


def _rebuild(cls: type[LakemarkError], facts: JsonObject) -> LakemarkError:
    return cls.from_facts(facts)


class RetryableError(LakemarkError):
    """Nothing landed; the same call may succeed later."""

    kind = "retryable"
    exit_code = 10


class OutcomeUnknownError(LakemarkError):
    """Something may have landed. Read the target's log (settle) before you try anything again (I6)."""

    kind = "outcome_unknown"
    exit_code = 11


class TerminalError(LakemarkError):
    """A person must act: a retry would fail in the same way."""

    kind = "terminal"
    exit_code = 12


class Problem(NamedTuple):
    """What is wrong with one field of a file."""

    field: str
    allowed: str
    found: str

    def __str__(self) -> str:
        return f"{self.field}: expected {self.allowed}; found {self.found}"


_LINES_MAX = 20  # of a file's problems in a text


class PipelineFileError(TerminalError):
    """A pipeline file is not valid.

    Args:
        problems: all that is wrong with it. `where`, `expected` and `found` are about the first.
    """

    def __init__(
        self, *, what: str, where: str, expected: str, found: str, action: str, problems: Sequence[Problem] = ()
    ) -> None:
        super().__init__(what=what, where=where, expected=expected, found=found, action=action)
        self.problems = tuple(problems)

    @property
    def file(self) -> str:
        return self.where.partition(", field ")[0]

    def __str__(self) -> str:
        if len(self.problems) < 2:
            return super().__str__()
        lines = "".join(f"\n  {problem}" for problem in self.problems[:_LINES_MAX])
        more = len(self.problems) - _LINES_MAX
        lines += f"\n  and {more:,} more" if more > 0 else ""
        place = self.where.removesuffix(f", field {self.problems[0].field}")
        return f"{self.what} ({place}): {len(self.problems)} problems{lines}\nWhat to do: {self.action}"

    def facts(self) -> JsonObject:
        return {**super().facts(), "problems": [problem._asdict() for problem in self.problems]}

    @classmethod
    def from_facts(cls, facts: JsonObject) -> PipelineFileError:
        parts = {name: facts[name] for name in _PARTS}
        return cls(**parts, problems=[Problem(**problem) for problem in facts.get("problems", ())])


class SuiteError(TerminalError):
    """A quality suite is not valid."""


class TransformError(TerminalError):
    """A transform cannot be run."""


class QualityGate(TerminalError):
    """A batch broke a rule that stops the whole batch. Nothing of it landed, and it stays planned."""


class SchemaChanged(TerminalError):
    """The pipeline file and the table have different columns, and a person has to decide."""


class RangeGap(TerminalError):
    """An attempt ran batch n while the target's marker is below n-1 (I4)."""


class BatchMismatch(TerminalError):
    """The target holds batch n, with other ranges than the plan (I3)."""


class FencedGeneration(TerminalError):
    """The attempt belongs to a generation that a reset or restore has ended (I5)."""


class OffsetsExpired(TerminalError):
    """Kafka no longer holds a range in full (I7)."""


class TopicRecreated(TerminalError):
    """The topic with this name is not the one in the plan: it was re-created (I7)."""


class LedgerConflict(TerminalError):
    """The ledger's events contradict each other, or contradict the target's marker."""


class LedgerBehindTarget(TerminalError):
    """The target holds batches that the ledger does not know: the ledger was lost or replaced (I10)."""


class TargetBehindLedger(TerminalError):
    """The target lacks batches that the ledger has as committed: it was replaced or rolled back (I3, I4)."""


class StoreAway(RetryableError, OSError):
    """The store of a lake does not answer."""


class StoreFull(RetryableError, OSError):
    """The store of a lake has no space left."""


class StoreUnclear(OutcomeUnknownError, OSError):
    """The store of a lake gave no clear answer to a write, which may be there or not."""


class StoreRefuses(TerminalError, OSError):
    """The store of a lake refuses a request: the login, its rights, the bucket."""


class TableDamaged(TerminalError):
    """The files of a table are not as Delta wrote them: one is missing, cut short or not readable."""


class ProgressUnreadable(TerminalError):
    """What a sink keeps as its progress is no delivery's: somebody else has written there."""


class CountsDisagree(TerminalError):
    """The numbers of a commit do not add up (I8)."""


_BY_KIND = {cls.kind: cls for cls in (RetryableError, OutcomeUnknownError, TerminalError)}


def error_from_facts(facts: JsonObject) -> LakemarkError:
    """Makes an exception of the error that a job reported as JSON (see `LakemarkError.facts`).

    The job's code may be newer. If this code does not know the class, it uses the class of the error's kind. If it does
    not know the kind, the outcome is unknown.
    """
    known = ERRORS_BY_NAME.get(facts.get("error", ""))
    return _rebuild(known or _BY_KIND.get(facts.get("kind", ""), OutcomeUnknownError), facts)


def is_terminal(outcome: str | None) -> bool:
    """Whether an attempt's outcome is the name of an error that only a person can fix."""
    error = ERRORS_BY_NAME.get(outcome or "")
    return error is not None and issubclass(error, TerminalError)
