"""Which places a lake can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.lake.uri import LakeUri, lake_at
from include.protocol.errors import TerminalError
from include.settings import Settings


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://lake", "s3://lake"),
        ("s3://lake/a/b.c_d=e-f/", "s3://lake/a/b.c_d=e-f"),
        ("s3://my.lake/..a/b..", "s3://my.lake/..a/b.."),
        ("/", "/"),
        ("/a folder/b%20c//", "/a folder/b%20c"),
        ("/a/../b/./c", "/b/c"),
    ],
)
def test_a_lake_lies_where_a_person_says(text: str, place: str) -> None:
    assert lake_at(text) == LakeUri(place)


def test_an_error_does_not_repeat_a_login() -> None:
    with pytest.raises(TerminalError) as refused:
        lake_at("s3://key:a-secret@bucket/x")
    assert "a-secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        *("s3://", "s3://lake//a", "s3://lake/a b", "s3://lake/a%20b", "s3://LAKE/a", "s3://lake/a/../b", "s3://../a"),
        *("s3://lake/a/.", "s3://lake/./a", "s3a://lake/a", "gs://lake", "file:///a", "a/b", "./a", "s3:/lake", " /a"),
    ],
)
def test_a_place_that_programs_would_not_name_alike_is_refused_at_once(text: str, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="no place for a lake"):
        lake_at(text)
    with pytest.raises(TerminalError, match="set LAKEMARK_LAKE"):
        Settings.from_environment({"LAKEMARK_HOME": str(tmp_path), "LAKEMARK_LAKE": text})
