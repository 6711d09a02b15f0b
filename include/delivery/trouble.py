"""The errors that all kinds of sinks share."""

from __future__ import annotations

from include.protocol.errors import OutcomeUnknownError, ProgressUnreadable, RetryableError, TerminalError
from include.protocol.progress import Progress
from include.sources.logins import DatabaseLogin


def overtaken(where: str, expected: Progress | None, found: Progress | None) -> RetryableError:
    """The error of a delivery that another one was faster than."""
    return RetryableError(
        what="another delivery to this sink was faster",
        where=where,
        expected=_told(expected),
        found=_told(found),
        action="run the same again: it goes on from there",
    )


def outcome_unknown(where: str, found: str) -> OutcomeUnknownError:
    """The error of a delivery whose answer is lost."""
    return OutcomeUnknownError(
        what="the answer of a sink to a commit is lost",
        where=where,
        expected="an answer",
        found=found,
        action="run the same again: the sink itself says whether it has the delivery",
    )


def under_way(where: str, session: str, seconds: float) -> RetryableError:
    """The error of a sink that another delivery has, which goes on. Args: session: of that one, at the server."""
    return RetryableError(
        what="another delivery to this sink is under way",
        where=where,
        expected=f"its end within {seconds:.0f} s",
        found=f"the session {session}, which moves",
        action="wait for it, and run the same again",
    )


def busy(where: str, pipeline: str, transaction: str, seconds: float) -> RetryableError:
    """The error of a prepared transaction that its session does not let go."""
    return RetryableError(
        what="another session still has a prepared transaction",
        where=where,
        expected=f"its end within {seconds:.0f} s",
        found=transaction,
        action=f"run the same again; if it stays, `lakemark sinks pending {pipeline}` names it, and an administrator "
        "ends that session",
    )


def another_users(where: str, pipeline: str, found: str, statement: str) -> TerminalError:
    """The error of a prepared transaction that this user may not end. Args: statement: that ends it rightly."""
    return TerminalError(
        what="another user of the server has prepared a transaction of this sink",
        where=where,
        expected="the user who has prepared it, or a superuser",
        found=found,
        action=f"let one of them run `{statement}`, or let the section name that user until "
        f"`lakemark sinks deliver {pipeline}` has ended it; then run the same again",
    )


def cannot_prepare(where: str, expected: str, found: str, action: str) -> TerminalError:
    """The error of a server that does not keep prepared transactions as two phases need it."""
    return TerminalError(
        what="a sink of two phases cannot prepare its transactions",
        where=where,
        expected=expected,
        found=found,
        action=f"{action}; or let the section say `mode: follow`",
    )


def no_room(where: str, pipeline: str, expected: str, found: str) -> RetryableError:
    """The error of a server that can keep no further prepared transaction now."""
    return RetryableError(
        what="a sink has no room for a prepared transaction",
        where=where,
        expected=expected,
        found=found,
        action=f"end those that nobody needs (`lakemark sinks pending {pipeline}` names this pipeline's), or set it "
        "higher; then run the same again",
    )


def unreachable(where: str, found: str) -> RetryableError:
    """The error of a sink that does not answer."""
    return RetryableError(
        what="a sink does not answer",
        where=where,
        expected="an answer",
        found=found,
        action="see whether its server runs and can be reached from here; the next delivery goes on where this began",
    )


def unreadable(where: str, found: str) -> ProgressUnreadable:
    """The error of a sink whose progress no delivery has written. Args: found: where it is; no value."""
    return ProgressUnreadable(
        what="the progress of a sink cannot be read",
        where=where,
        expected="what a delivery has written there",
        found=found,
        action='let the sink begin anew (docs/sinks.md, "What happens when")',
    )


def refuses_login(where: str, login: DatabaseLogin, found: str) -> TerminalError:
    """The error of a server that does not let the user in."""
    return TerminalError(
        what="a sink refuses the login",
        where=where,
        expected=f"the user {login.username} of the database {login.database}",
        found=found,
        action="correct `sinks` in the pipeline file, or the variables or the connection that it names",
    )


def refuses_certificates(where: str, found: str) -> TerminalError:
    """The error of a server whose certificate is not one of those that `ca_file` trusts, or of one that has none."""
    return TerminalError(
        what="a sink cannot be asked by TLS",
        where=where,
        expected="a server with a certificate that `ca_file` trusts",
        found=found,
        action="correct `ca_file` in the pipeline file: a PEM file of who has signed the server's certificate; or let "
        "the server use TLS",
    )


def taken_by(where: str, other: str, file: str) -> TerminalError:
    """The error of a sink into which another one delivers. Args: other: its pipeline and its name. file: of this one's
    pipeline."""
    return TerminalError(
        what="another sink delivers there",
        where=where,
        expected="a place that no other sink writes",
        found=f"that of {other}",
        action=f"let `sinks` in {file} name a place of its own (the file of a clone still names those of the pipeline "
        "that it was made from)",
    )


def refuses(where: str, found: str, action: str, evidence: str = "") -> TerminalError:
    """The error of a sink that refuses what it gets. Args: evidence: may quote values of rows."""
    return TerminalError(
        what="a sink refuses a delivery",
        where=where,
        expected="a table that takes the rows",
        found=found,
        action=action,
        evidence=evidence,
    )


def _told(progress: Progress | None) -> str:
    return "nothing delivered yet" if progress is None else progress.in_words
