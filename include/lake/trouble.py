"""Why a table's store does not do what it is asked: the store itself, which is asked once more."""

from __future__ import annotations

from include.lake.posix.errors import refusal
from include.lake.stores import log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import LakemarkError


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
    except OSError:
        pass  # it is not there, for instance
    return refusal(uri, found) if "ermission denied" in found else None
