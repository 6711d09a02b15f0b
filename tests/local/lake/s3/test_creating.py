"""Who has created an object, when answers get lost. A real S3-compatible server, behind a proxy that loses them."""

from __future__ import annotations

import uuid
from typing import get_args

import pytest

from include.lake.s3 import creating
from include.lake.s3.creating import created, write_id
from include.lake.s3.object_file import opened
from include.protocol.errors import StoreUnclear
from tests.local.conftest import BUCKET
from tests.support.lossy_store import Fault, LossyStore


@pytest.fixture
def key() -> str:
    return f"t/_delta_log/{uuid.uuid4().hex}.json"


def content(key: str) -> bytes:
    return opened(BUCKET, key).read()


@pytest.mark.parametrize("fault", get_args(Fault))
@pytest.mark.parametrize("times", [1, 3])
def test_i6_a_lost_answer_to_ones_own_commit_is_ones_own_commit(
    store: LossyStore, key: str, fault: Fault, times: int
) -> None:
    store.breaks(f"PUT .*{key}", fault, times)
    assert created(BUCKET, key, b"mine")
    assert store.seen[f"PUT /{BUCKET}/{key}"] > (0 if fault in ("body cut", "delayed") else times)
    assert content(key) == b"mine"
    assert not created(BUCKET, key, b"mine"), "the same bytes of another writer"


@pytest.mark.parametrize("fault", get_args(Fault))
def test_i5_a_commit_of_another_writer_is_never_taken_for_ones_own(store: LossyStore, key: str, fault: Fault) -> None:
    assert created(BUCKET, key, b"same bytes")
    theirs = write_id(BUCKET, key)
    store.breaks(f"PUT .*{key}", fault, 2)
    assert not created(BUCKET, key, b"same bytes")
    assert write_id(BUCKET, key) == theirs


def test_i6_a_store_that_stays_silent_leaves_the_outcome_unknown(
    store: LossyStore, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creating, "_SECONDS", 0.5)
    store.breaks(f"PUT .*{key}", "answer lost", 1_000)
    with pytest.raises(StoreUnclear, match=key):
        created(BUCKET, key, b"mine")
    assert content(key) == b"mine", "as it happens"


@pytest.mark.parametrize("size", [0, 10, 100_000, 9_000_000])
def test_a_body_that_is_cut_is_read_again(store: LossyStore, key: str, size: int) -> None:
    whole = bytes(n % 251 for n in range(size))
    assert created(BUCKET, key, whole)
    store.breaks(f"GET .*{key}", "body cut", 1)
    assert content(key) == whole
