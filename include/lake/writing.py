"""What is said where the store refuses a write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError

from include.lake.damage import on_one_line
from include.lake.trouble import trouble
from include.lake.uri import LakeUri
from include.protocol.errors import LakemarkError, RetryableError


@contextmanager
def writing(what: str, where: LakeUri) -> Iterator[None]:
    """Names a write that is refused. Whether it landed is not known: whoever does it again must do nothing twice.

    Args:
        what: is written, as the subject of the error.

    Raises:
        RetryableError: the store refuses. CommitFailedError: another writer was faster. The errors of `trouble`.
    """
    try:
        yield
    except (CommitFailedError, LakemarkError):
        raise
    except (DeltaError, OSError) as error:
        raise refused(what, where, error) from error


def refused(what: str, where: LakeUri, error: Exception) -> LakemarkError:
    """The error for a write that failed. Args: see `writing`."""
    return trouble(where) or RetryableError(
        what=f"{what} could not be written",
        where=str(where),
        expected="a folder that this user may write to, with space left",
        found=on_one_line(error),
        action="check that the disk has space left and that this user may write there, then run the same again (or "
        "rerun the task): nothing is done twice",
    )
