"""What a file system refuses: each one an error that says to people what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from include.lake.stores import files_at, lines_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import StoreFull, StoreRefuses
from tests.support.mounts import NOBODY, another_user, mounted, open_folder

WRITES: dict[str, Callable[[LakeUri], object]] = {
    "create": lambda folder: files_at(folder).create(folder / "new", b"1"),
    "publish": lambda folder: files_at(folder).publish(folder / "new", b"1"),
    "write": lambda folder: files_at(folder).write(folder / "new", BytesIO(b"1")),
    "link": lambda folder: files_at(folder).link(folder / "old", folder / "new"),
    "make_folder": lambda folder: files_at(folder).make_folder(folder / "new"),
    "move": lambda folder: files_at(folder).move(folder / "_delta_log", folder / "new"),
    "remove": lambda folder: files_at(folder).remove(folder / "old"),
    "delete": lambda folder: files_at(folder).delete(folder / "_delta_log"),
    "commit": lambda folder: log_store_of(folder).create(0, b"{}"),
    "line": lambda folder: lines_at(folder / "lines").add("one"),
}
READS: dict[str, Callable[[LakeUri], object]] = {
    "open": lambda folder: files_at(folder).open(folder / "old"),
    "list": lambda folder: list(files_at(folder).list(folder)),
    "folders": lambda folder: files_at(folder).folders(folder),
    "exists": lambda folder: files_at(folder).exists(folder / "old"),
    "commit": lambda folder: log_store_of(folder).read(0),
    "entries": lambda folder: log_store_of(folder).entries(),
}


@pytest.fixture
def folder() -> Iterator[LakeUri]:
    """A folder with a file and a log, that others may find."""
    with open_folder() as folder:
        (folder / "_delta_log").mkdir()
        (folder / "old").write_bytes(b"1")
        yield LakeUri(str(folder))


@pytest.mark.parametrize("name", WRITES)
def test_what_a_user_may_not_write_says_who_and_where(folder: LakeUri, name: str) -> None:
    with another_user(), pytest.raises(StoreRefuses) as failure:
        WRITES[name](folder)
    assert f"user id {NOBODY}" in failure.value.expected
    assert failure.value.where.startswith(str(folder))
    assert "give this user the right" in failure.value.action


@pytest.mark.parametrize("name", READS)
def test_what_a_user_may_not_read_says_who_and_where(folder: LakeUri, name: str) -> None:
    Path(str(folder)).chmod(0o000)
    with another_user(), pytest.raises(StoreRefuses) as failure:
        READS[name](folder)
    assert "Permission denied" in failure.value.found


def test_a_file_system_that_nobody_may_write_to_is_to_be_mounted_anew(folder: LakeUri) -> None:
    mount = ("--bind", "-o", "ro", str(folder))
    with mounted(str(folder), *mount), pytest.raises(StoreRefuses, match="mount the file system for writing"):
        WRITES["publish"](folder)


@pytest.mark.parametrize("name", ["create", "publish", "write", "commit"])
def test_a_full_disk_can_be_tried_again(folder: LakeUri, name: str) -> None:
    with mounted(str(folder), "-t", "tmpfs", "-o", "size=4k", "none"):
        files_at(folder).make_folder(folder / "_delta_log")
        files_at(folder).create(folder / "filler", bytes(4096))
        with pytest.raises(StoreFull, match="free some space"):
            WRITES[name](folder)


def test_a_file_that_is_gone_stays_a_file_that_is_gone(folder: LakeUri) -> None:
    with pytest.raises(FileNotFoundError):
        files_at(folder).open(folder / "no such")
    assert files_at(folder).folders(folder / "no such") == []
    assert list(files_at(folder).list(folder / "no such")) == []
