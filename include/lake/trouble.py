"""Why a table's store does not do what it is asked: the store itself, which is asked once more."""

from __future__ import annotations

import os

from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import LakemarkError, TerminalError


def trouble(uri: LakeUri, found: str = "") -> LakemarkError | None:
    """The error that says why nobody can read a table now, whatever is in it; None if its store answers.

    Libraries tell what a store said in texts of their own.

    Args:
        found: what somebody saw there.
    """
    try:
        log_store_of(uri).entries()
    except LakemarkError as error:
        return error
    except PermissionError as error:
        return _may_not(uri, found or str(error))
    except OSError:
        pass  # it is not there, for instance
    return _may_not(uri, found) if "ermission denied" in found else None


def _may_not(uri: LakeUri, found: str) -> TerminalError:
    return TerminalError(
        what="a table may not be read",
        where=str(uri),
        expected=f"a folder whose files the user of this process (user id {os.geteuid()}) may read",
        found=found,
        action="give this user the right to read the folder and all files in it, and to write there if it runs "
        "jobs, then run the same again (or rerun the task)",
    )
