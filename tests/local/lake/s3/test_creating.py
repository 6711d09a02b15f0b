"""Who has created an object, when answers get lost. A real S3-compatible server, behind a proxy that loses them."""

from __future__ import annotations

import uuid
from typing import get_args

import pytest

from include.lake.s3 import creating
from include.lake.s3.creating import created, write_id
from include.lake.s3.object_file import opened
from include.lake.s3.objects import Place
from include.protocol.errors import StoreUnclear
from tests.local.conftest import BUCKET
from tests.support.lossy_store import Fault, LossyStore


@pytest.fixture
def place() -> Place:
    return Place(BUCKET, f"t/_delta_log/{uuid.uuid4().hex}.json")


def content(place: Place) -> bytes:
    return opened(place).read()


@pytest.mark.parametrize("fault", get_args(Fault))
@pytest.mark.parametrize("times", [1, 3])
def test_i6_a_lost_answer_to_ones_own_commit_is_ones_own_commit(
    store: LossyStore, place: Place, fault: Fault, times: int
) -> None:
    store.breaks(f"PUT .*{place.key}", fault, times)
    assert created(place, b"mine")
    assert store.seen[f"PUT /{BUCKET}/{place.key}"] > (0 if fault in ("body cut", "delayed") else times)
    assert content(place) == b"mine"
    assert not created(place, b"mine"), "the same bytes of another writer"


@pytest.mark.parametrize("fault", get_args(Fault))
def test_i5_a_commit_of_another_writer_is_never_taken_for_ones_own(
    store: LossyStore, place: Place, fault: Fault
) -> None:
    assert created(place, b"same bytes")
    theirs = write_id(place)
    store.breaks(f"PUT .*{place.key}", fault, 2)
    assert not created(place, b"same bytes")
    assert write_id(place) == theirs


def test_i6_a_store_that_stays_silent_leaves_the_outcome_unknown(
    store: LossyStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creating, "_SECONDS", 0.5)
    store.breaks(f"PUT .*{place.key}", "answer lost", 1_000)
    with pytest.raises(StoreUnclear, match=place.key):
        created(place, b"mine")
    assert content(place) == b"mine", "as it happens"


@pytest.mark.parametrize("size", [0, 10, 100_000, 9_000_000])
def test_a_body_that_is_cut_is_read_again(store: LossyStore, place: Place, size: int) -> None:
    whole = bytes(n % 251 for n in range(size))
    assert created(place, whole)
    store.breaks(f"GET .*{place.key}", "body cut", 1)
    assert content(place) == whole
