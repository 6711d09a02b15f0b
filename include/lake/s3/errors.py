"""What a store answers, as errors: each is an OSError, as any store's, and says to people what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from include.protocol.errors import StoreAway, StoreRefuses

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError

_NOT_FOUND, _TOO_MANY, _OF_STORE = 404, 429, 500
_IN_FLIGHT = 409  # another conditional request for the same object has not ended
_UNKNOWN_HEADER = "NotImplemented"
_NO_SUCH_BUCKET = "NoSuchBucket"
_CLOCKS = "RequestTimeTooSkewed"
_REDIRECTS = (301, 302, 307, 308)
_WRONG_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired")
_LOGIN = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId")
_USUAL_WAYS = "AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's own role"
_AGAIN = "then run the same again (or rerun the task): nothing is done twice"
_ANSWER = "an answer of the store"


@contextmanager
def answering(where: str) -> Iterator[None]:
    """Raises what a store answers as one of the errors of every store.

    Raises:
        FileNotFoundError: there is no such object. StoreRefuses: the login, its rights, or no such bucket. StoreAway:
        no answer, an answer that is cut short, or one that says: later.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _of_answer(error, where) from error
    except BotoCoreError as error:
        raise _without_answer(error, where) from error


def status_of(error: ClientError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def code_of(error: ClientError) -> str:
    """The code of an answer; for one without content, its HTTP status."""
    return str(error.response.get("Error", {}).get("Code", "")) or str(status_of(error))


def is_for_later(error: Exception) -> bool:
    """Whether the same request may get another answer soon."""
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError):
        return may_have_landed(error) or status_of(error) in (_IN_FLIGHT, _TOO_MANY)
    return _is_of_network(error)


def may_have_landed(error: Exception) -> bool:
    """Whether the store may have done, or may still do, what this is no clear answer to."""
    from botocore import exceptions as of

    if isinstance(error, of.ClientError):
        return status_of(error) >= _OF_STORE and code_of(error) != _UNKNOWN_HEADER
    return _is_of_network(error) and not isinstance(error, (of.EndpointConnectionError, of.ConnectTimeoutError))


def _is_of_network(error: Exception) -> bool:
    from botocore import exceptions as of

    return isinstance(error, (of.ConnectionError, of.HTTPClientError, of.IncompleteReadError))


def _of_answer(error: ClientError, where: str) -> OSError:
    code, status = code_of(error), status_of(error)
    if code == _NO_SUCH_BUCKET:
        return _refused(error, where, "an existing bucket", f"make the bucket, or correct LAKEMARK_LAKE; {_AGAIN}")
    if code == _UNKNOWN_HEADER:
        conditions = "a store that creates an object on condition that there is none (If-None-Match: *)"
        return _refused(error, where, conditions, "use another store: docs/object-store.md names those that were tried")
    if status == _NOT_FOUND:
        return FileNotFoundError(f"{where}: {_said(error)}")
    if is_for_later(error):
        return _away(where, _said(error), f"wait until the store answers again, {_AGAIN}")
    if code == _CLOCKS:
        return _refused(error, where, _clocks(error), f"set this machine's clock (NTP), {_AGAIN}")
    if code in _WRONG_REGION or status in _REDIRECTS:
        place = "the address, and the region, that the bucket lies in"
        return _refused(error, where, place, f"correct AWS_REGION and AWS_ENDPOINT_URL_S3 (http or https), {_AGAIN}")
    if code in _EXPIRED:
        return _refused(error, where, "credentials that have not expired", f"get new ones ({_USUAL_WAYS}), {_AGAIN}")
    if code in _LOGIN:
        return _refused(error, where, "a login that the store knows", f"correct {_USUAL_WAYS}, {_AGAIN}")
    rights = "a login that the store knows, with the rights that docs/object-store.md names"
    return _refused(error, where, rights, f"give the login these rights, {_AGAIN}")


def _without_answer(error: BotoCoreError, where: str) -> OSError:
    from botocore import exceptions as of

    said = f"{type(error).__name__}: {error}"
    nobody = (of.NoCredentialsError, of.PartialCredentialsError, of.ProfileNotFound, of.TokenRetrievalError)
    if isinstance(error, nobody):
        return _refuses(where, "credentials", said, f"set {_USUAL_WAYS}, {_AGAIN}")
    if isinstance(error, (of.NoRegionError, of.InvalidRegionError)):
        return _refuses(where, "a region", said, f"set AWS_REGION (for a store that has none: us-east-1), {_AGAIN}")
    if isinstance(error, of.SSLError):
        certificate = "a certificate that this machine trusts"
        return _refuses(where, certificate, said, f"set AWS_CA_BUNDLE to the file of its authority, {_AGAIN}")
    return _away(where, said, f"check AWS_ENDPOINT_URL_S3 and the way to it, {_AGAIN}")


def _said(error: ClientError) -> str:
    message = error.response.get("Error", {}).get("Message", "no reason given")
    return f"{code_of(error)} to {error.operation_name} (HTTP {status_of(error)}): {message}"


def _clocks(error: ClientError) -> str:
    """Both clocks, in words."""
    theirs = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    ours = datetime.now(UTC).strftime("%H:%M:%S UTC")
    said = f", where it is {parsedate_to_datetime(theirs):%H:%M:%S} UTC" if theirs else ""
    return f"a clock that goes with the store's{said} (here it is {ours})"


def _refused(error: ClientError, where: str, expected: str, action: str) -> StoreRefuses:
    return _refuses(where, expected, _said(error), action)


def _refuses(where: str, expected: str, found: str, action: str) -> StoreRefuses:
    return StoreRefuses(
        what="the lake's store refuses a request", where=where, expected=expected, found=found[:500], action=action
    )


def _away(where: str, found: str, action: str) -> StoreAway:
    return StoreAway(
        what="the lake's store does not answer", where=where, expected=_ANSWER, found=found[:500], action=action
    )
