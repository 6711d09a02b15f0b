"""Whether a store can keep a lake, and whether it is the lake that this installation has used: a real S3-compatible
server behind a proxy that lacks something."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import get_args

import pytest

from include.lake.lakes import verify_lake, verify_same
from include.lake.s3 import connection
from include.lake.s3.connection import client
from include.lake.uri import LakeUri
from include.protocol.errors import StoreAway, StoreRefuses, TerminalError
from tests.local.conftest import BUCKET
from tests.support.lossy_store import Lack, LossyStore
from tests.support.s3_server import S3Server


@pytest.fixture
def lake(on_s3: LakeUri) -> LakeUri:
    return on_s3


def keys(lake: LakeUri) -> list[str]:
    prefix = lake.text.removeprefix(f"s3://{BUCKET}/")
    found = client().list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", ())
    return [one["Key"].removeprefix(f"{prefix}/") for one in found]


def test_a_store_that_decides_is_asked_once(store: LossyStore, lake: LakeUri, tmp_path: Path) -> None:
    verify_lake(lake, tmp_path)
    assert keys(lake) == ["_lakemark/lake.json"], "the probe leaves nothing behind"
    store.seen.clear()
    verify_lake(lake, tmp_path)
    assert store.seen.total() == 1


@pytest.mark.parametrize("lack", get_args(Lack))
def test_i5_a_store_that_would_let_two_writers_succeed_is_refused(
    store: LossyStore, lake: LakeUri, tmp_path: Path, lack: Lack
) -> None:
    store.lack = lack
    with pytest.raises(StoreRefuses):
        verify_lake(lake, tmp_path)
    store.lack = None
    assert keys(lake) == []


def test_a_lake_in_another_one_is_refused(store: LossyStore, lake: LakeUri, tmp_path: Path) -> None:
    verify_lake(lake, tmp_path)
    with pytest.raises(TerminalError, match=f"a lake in {lake}"):
        verify_lake(lake / "silver/more", tmp_path)
    other = LakeUri(f"s3://{BUCKET}/{uuid.uuid4().hex}")
    verify_lake(other / "below", tmp_path)
    with pytest.raises(TerminalError, match=f"a lake in {other}/below"):
        verify_lake(other, tmp_path)


def test_i10_a_lake_that_was_made_anew_is_not_taken_for_the_old_one(
    store: LossyStore, lake: LakeUri, tmp_path: Path
) -> None:
    home, strange = tmp_path / "home", tmp_path / "strange"
    verify_lake(lake, home)
    prefix = lake.text.removeprefix(f"s3://{BUCKET}/")
    client().delete_object(Bucket=BUCKET, Key=f"{prefix}/_lakemark/lake.json")
    for refused in (verify_lake, verify_same):
        with pytest.raises(TerminalError, match="found none"):
            refused(lake, home)
    verify_lake(lake, strange)
    with pytest.raises(TerminalError, match="found another one") as refused:
        verify_lake(lake, home)
    assert str(home / "lakes.json") in refused.value.action
    (home / "lakes.json").unlink()
    verify_lake(lake, home)


@pytest.mark.parametrize(
    ("name", "value", "advised"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "correct AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("AWS_PROFILE", "nobody", "set AWS_PROFILE"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9", "check AWS_ENDPOINT_URL_S3"),
        ("AWS_ENDPOINT_URL_S3", "127.0.0.1:9", "correct AWS_ENDPOINT_URL_S3"),
    ],
)
def test_what_a_refusal_advises(
    store: LossyStore,
    server: S3Server,
    lake: LakeUri,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    advised: str,
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setenv(name, value)
        connection.forget()
        with pytest.raises((StoreRefuses, StoreAway), match=advised) as refused:
            verify_lake(lake, tmp_path)
    assert server.secret not in refused.value.in_full
    connection.forget()
    verify_lake(lake, tmp_path)  # the advice was followed: the variable has its right value again
    followed = keys(lake)
    assert followed == ["_lakemark/lake.json"]


def test_a_bucket_that_is_gone_is_no_empty_lake(store: LossyStore, tmp_path: Path) -> None:
    with pytest.raises(StoreRefuses, match="make the bucket"):
        verify_lake(LakeUri("s3://gone/lake"), tmp_path)
