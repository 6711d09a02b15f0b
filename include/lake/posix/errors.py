"""What a file system refuses, as errors: each is an OSError, as any store's, and says to people what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from include.lake.uri import LakeUri
from include.protocol.errors import StoreFull, StoreRefuses

_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_AGAIN = "then run the same again (or rerun the task): nothing is done twice"


@contextmanager
def answering(where: LakeUri | Path | str) -> Iterator[None]:
    """Raises what a file system refuses as one of the errors of every store; any other OSError as it is.

    Raises:
        StoreRefuses: this user's rights, or a file system that nobody may write to. StoreFull: no space left.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_RIGHT:
            raise refusal(where, str(error), is_read_only=error.errno == errno.EROFS) from error
        if error.errno in _NO_SPACE:
            raise StoreFull(
                what="the lake's disk is full",
                where=str(where),
                expected="space left on the disk, and within this user's quota",
                found=str(error),
                action=f"free some space, {_AGAIN}",
            ) from error
        raise


def refusal(where: LakeUri | Path | str, found: str, is_read_only: bool = False) -> StoreRefuses:
    """The error for what this user may not do.

    Args:
        found: what the file system, or a library, says. is_read_only: nobody may write there.
    """
    right = "give this user the right to read the folder and all files in it, and to write there"
    return StoreRefuses(
        what="the lake's file system refuses to read or to write",
        where=str(where),
        expected=f"folders and files that the user of this process (user id {os.geteuid()}) may read, and may write if "
        "it changes anything",
        found=found,
        action=f"{'mount the file system for writing' if is_read_only else right}, {_AGAIN}",
    )
