"""What a store answers, as the errors that every store raises (`OSError`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


@contextmanager
def answering(where: str) -> Iterator[None]:
    """Raises what a store answers as an OSError.

    Raises:
        FileNotFoundError: there is no such object. PermissionError: the login may not do that, or is not known.
        OSError: anything else: no bucket, no answer, an answer that is cut short.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _of_answer(error, where) from error
    except BotoCoreError as error:
        raise OSError(f"{where}: {type(error).__name__}: {error}") from error


def status_of(error: ClientError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _of_answer(error: ClientError, where: str) -> OSError:
    code, status = error.response.get("Error", {}).get("Code", ""), status_of(error)
    said = f"{where}: {code or status}: {error}"
    if code == "NoSuchBucket":
        return OSError(said)
    if status == 404:
        return FileNotFoundError(said)
    return PermissionError(said) if status in (401, 403) else OSError(said)
