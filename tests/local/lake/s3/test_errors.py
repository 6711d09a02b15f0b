"""What a store answers, as one clear error each. A real S3-compatible server behind a proxy that answers for it."""

from __future__ import annotations

import pytest

from include.lake.s3 import connection
from include.lake.s3.creating import created
from include.lake.s3.objects import Place
from include.lake.stores import files_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import StoreAway, StoreRefuses
from tests.support.lossy_store import LossyStore

_ANSWERS = [
    (403, "InvalidAccessKeyId", "correct AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    (403, "SignatureDoesNotMatch", "correct AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    (400, "ExpiredToken", "get new ones"),
    (403, "RequestTimeTooSkewed", "set this machine's clock"),
    (403, "AccessDenied", "give the login these rights"),
    (404, "NoSuchBucket", "make the bucket, or correct LAKEMARK_LAKE"),
    (400, "IllegalLocationConstraintException", "correct AWS_REGION"),
    (301, "PermanentRedirect", "correct AWS_REGION and AWS_ENDPOINT_URL_S3"),
    (307, "TemporaryRedirect", "correct AWS_REGION and AWS_ENDPOINT_URL_S3"),
    (501, "NotImplemented", "use another store"),
]


@pytest.mark.parametrize(("status", "code", "advised"), _ANSWERS)
def test_a_refusal_says_what_to_do_and_is_not_tried_again(
    store: LossyStore, on_s3: LakeUri, status: int, code: str, advised: str
) -> None:
    store.refusal = status, code
    table = on_s3 / "silver/t"
    for asked in (
        lambda: created(Place.of(table), b""),
        lambda: log_store_of(table).commits(0),
        lambda: log_store_of(table).read(0),
        lambda: list(files_at(table).list(table)),
    ):
        store.seen.clear()
        with pytest.raises(StoreRefuses, match=advised) as refused:
            asked()
        assert code in refused.value.found
        assert store.seen.total() == 1
    store.is_good()
    assert created(Place.of(table), b"")


def test_a_store_that_stays_silent_is_asked_a_few_times(
    store: LossyStore, on_s3: LakeUri, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)
    connection.forget()
    held = [store.holds("GET .*silver") for _ in range(2 * connection.TRIES)]
    with pytest.raises(StoreAway, match="check AWS_ENDPOINT_URL_S3"):
        log_store_of(on_s3 / "silver/t").read(0)
    assert sum(one.reached.is_set() for one in held) == connection.TRIES
    for one in held:
        one.gone.set()


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests")])
def test_a_store_that_is_busy_is_asked_again_and_then_away(
    store: LossyStore, on_s3: LakeUri, status: int, code: str
) -> None:
    store.refusal = status, code
    with pytest.raises(StoreAway, match="wait until the store answers again"):
        log_store_of(on_s3 / "silver/t").commits(0)
    assert store.seen.total() > 1
