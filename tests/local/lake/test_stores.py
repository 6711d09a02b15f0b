"""What `LogStore` and `Files` promise, asked of every kind of store. A new kind joins by a line in `LAKES`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.lake.files import FileInfo, Files
from include.lake.log_store import Commit, LogStore
from include.lake.s3.connection import client
from include.lake.stores import delta_options, files_at, lines_at, log_store_of
from include.lake.uri import LakeUri
from include.protocol.errors import TerminalError
from tests.support.waiting import wait_until

LAKES = ("posix", "s3")
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeUri:
    if request.param == "posix":
        return LakeUri(str(tmp_path / "lake"))
    on_s3: LakeUri = request.getfixturevalue("on_s3")
    return on_s3


@pytest.fixture
def table(lake: LakeUri) -> LakeUri:
    """Versions 0 and 1, and a checkpoint of version 1."""
    uri = lake / "silver/t"
    write_deltalake(str(uri), ROWS, storage_options=delta_options(uri))
    write_deltalake(str(uri), ROWS, mode="append", storage_options=delta_options(uri))
    DeltaTable(str(uri), storage_options=delta_options(uri)).create_checkpoint()
    return uri


@pytest.fixture
def log(table: LakeUri) -> LogStore:
    return log_store_of(table)


@pytest.fixture
def files(lake: LakeUri) -> Files:
    return files_at(lake)


def test_i5_of_two_who_create_a_version_one_wins_and_the_other_is_told(log: LogStore) -> None:
    contents = [b"%d" % n * 100_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: log.create(2, content), contents))
    assert won.count(True) == 1
    assert log.read(2) == contents[won.index(True)], "the winner's bytes, whole"
    assert not log.create(2, b"later")
    assert log.read(2) == contents[won.index(True)]


def test_i5_no_commit_lands_without_the_one_before_it(log: LogStore) -> None:
    """A table that was lost and made again has fewer versions: such a commit would leave a gap there."""
    assert not log.create(3, b"{}")
    assert not log.has(3)


def test_i5_a_commit_succeeds_the_very_version_that_was_read(table: LakeUri, log: LogStore, files: Files) -> None:
    stamp = log.stamp(1)
    assert stamp is not None
    assert log.stamp(2) is None
    files.delete(table)
    for _ in range(2):
        write_deltalake(str(table), ROWS, mode="append", storage_options=delta_options(table))
    assert not log.create(2, b"{}", succeeds=stamp), "the table is another one"
    assert log.create(2, b"{}", succeeds=log.stamp(1))


def test_a_commit_may_succeed_one_that_log_clean_up_has_removed(table: LakeUri, log: LogStore) -> None:
    files_at(table).remove(table / "_delta_log" / f"{1:020}.json")
    assert log.create(2, b"{}"), "its checkpoint is there"


def test_commits_are_read_by_version(log: LogStore, lake: LakeUri) -> None:
    assert log.exists()
    assert not log_store_of(lake / "silver/none").exists()
    commit = log.read(1)
    assert commit is not None
    assert b'"add"' in commit
    assert (log.has(1), log.is_empty(2), log.has(2), log.read(2)) == (True, None, False, None)
    assert not log.is_empty(1)


def test_commits_are_told_from_a_version_on_with_their_stamps_and_gaps(log: LogStore, table: LakeUri) -> None:
    assert log.commits(0) == [Commit(n, log.stamp(n) or "") for n in (0, 1)]
    assert [commit.version for commit in log.commits(1)] == [1]
    assert log.commits(2) == []
    for version in (2, 3):
        assert log.create(version, b"%d" % version)
    files_at(table).remove(table / "_delta_log" / f"{2:020}.json")
    assert [commit.version for commit in log.commits(1)] == [1, 3]


def test_the_newest_checkpoint_is_found_and_read(log: LogStore, lake: LakeUri) -> None:
    assert b'"version":1' in (log.last_checkpoint() or b"")
    assert (log.has_checkpoint(1), log.has_checkpoint(0)) == (True, False)
    [found] = filter(None, log.read_checkpoint(1, ["metaData.id"])["metaData"].to_pylist())
    assert set(found) == {"id"}
    assert log_store_of(lake / "silver/none").last_checkpoint() is None
    with pytest.raises(OSError):
        log.read_checkpoint(0, ["metaData.id"])


def test_a_log_tells_that_it_has_changed(log: LogStore, lake: LakeUri) -> None:
    before, entries = log.changed_at(), log.entries()
    assert before is not None
    assert log.create(2, b"{}")
    assert log.entries() == entries + 1, "and nothing that it has written on the way stays"
    versions = count(3)  # the clock may be coarse: one of these is in a later tick
    wait_until(lambda: log.create(next(versions), b"{}") and log.changed_at() != before, 30)
    assert (log.changed_at() or 0) > before
    assert log_store_of(lake / "silver/none").changed_at() is None


def test_files_are_listed_below_a_folder_and_opened(files: Files, table: LakeUri) -> None:
    found = {file.name: file for file in files.list(table)}
    assert {name.rpartition("/")[0] for name in found} == {"", "_delta_log"}
    [(name, data)] = [(n, f) for n, f in found.items() if n.endswith(".parquet") and "/" not in n][:1]
    with files.open(table / name) as opened:
        content = opened.read()
    assert data == FileInfo(name, len(content), data.modified_at)
    assert content[:4] == content[-4:] == b"PAR1"
    assert list(files.list(table / "none")) == []
    with pytest.raises(OSError):
        files.open(table / "none")


def test_files_that_vanish_while_they_are_listed_are_no_error(files: Files, table: LakeUri) -> None:
    """Writers make temporary files in a log and remove them while others list the table."""
    whole = {file.name for file in files.list(table)}
    listed = files.list(table)
    first = next(listed)
    files.delete(table)
    assert {first.name, *(file.name for file in listed)} <= whole


def test_a_file_gets_a_second_name(files: Files, lake: LakeUri) -> None:
    for folder in ("a", "b"):
        files.make_folder(lake / folder)
    files.create(lake / "a/one", b"1")
    files.link(lake / "a/one", lake / "b/deep/one")
    files.link(lake / "a/one", lake / "b/deep/one")
    files.remove(lake / "a/one")
    with files.open(lake / "b/deep/one") as content:
        assert content.read() == b"1"
    with pytest.raises(FileNotFoundError):
        files.link(lake / "a/one", lake / "b/two")
    assert [file.name for file in files.list(lake / "b")] == ["deep/one"]


def test_folders_in_a_folder(files: Files, lake: LakeUri) -> None:
    assert files.folders(lake / "shelf") == []
    for name in ("shelf/b/x/file", "shelf/a/file", "shelf/c.d/file"):
        files.make_folder((lake / name).parent)
        files.create(lake / name, b"")
    files.create(lake / "shelf/file", b"")
    assert files.folders(lake / "shelf") == ["a", "b", "c.d"]


def test_folders_are_made_moved_and_deleted(files: Files, lake: LakeUri, table: LakeUri) -> None:
    files.make_folder(lake / "gold")
    files.make_folder(lake / "gold")
    files.move(table, lake / "gold/t")
    assert (files.exists(table), files.exists(lake / "gold/t")) == (False, True)
    assert DeltaTable(str(lake / "gold/t"), storage_options=delta_options(lake)).version() == 1
    files.delete(lake / "gold/t")
    assert not files.exists(lake / "gold/t")


def test_tables_around_a_folder_are_found(files: Files, lake: LakeUri, table: LakeUri) -> None:
    assert list(files.tables_around(table)) == []
    assert list(files.tables_around(lake)) == [table]
    assert list(files.tables_around(table / "deep/inner")) == [table]
    assert list(files.tables_around(lake / "silver/other")) == []


def test_a_scheme_that_no_kind_serves_is_refused_by_name() -> None:
    for ask in (files_at, log_store_of):
        with pytest.raises(TerminalError, match="the scheme ftp"):
            ask(LakeUri("ftp://host/lake"))


def test_places_above_and_below_end_at_the_root() -> None:
    assert (LakeUri("/x").parent, LakeUri("/x").beside("y")) == (LakeUri("/"), LakeUri("/y"))
    assert (LakeUri("x").parent / "y", LakeUri("x").beside("y")) == (LakeUri("y"), LakeUri("y"))


def test_references_of_a_log_are_relative_to_the_table_or_absolute() -> None:
    table = LakeUri("/lake/t")
    assert table.resolve("part%20one/0.parquet") == LakeUri("/lake/t/part one/0.parquet")
    assert table.resolve("file:///other/a%20b/0.parquet") == LakeUri("/other/a b/0.parquet")
    assert table.resolve("/other/0.parquet") == LakeUri("/other/0.parquet")
    assert table.resolve("s3://bucket/0%23.parquet") == LakeUri("s3://bucket/0#.parquet")


def test_a_place_is_no_path() -> None:
    uri = LakeUri("/lake") / "silver/t"
    assert (str(uri), uri.name, uri.parent, uri.scheme) == ("/lake/silver/t", "t", LakeUri("/lake/silver"), "file")
    assert (uri.beside("u"), LakeUri("s3://b/p").scheme) == (LakeUri("/lake/silver/u"), "s3")
    with pytest.raises(TypeError):
        Path(uri)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        open(uri)  # type: ignore[call-overload]  # noqa: PTH123, SIM115


def test_a_published_file_is_the_first_writers(lake: LakeUri) -> None:
    files, file = files_at(lake), lake / "_lakemark/made.json"
    files.make_folder(file.parent)
    with ThreadPoolExecutor(8) as writers:
        won = list(writers.map(lambda n: files.publish(file, str(n).encode()), range(8)))
    assert won.count(True) == 1
    with files.open(file) as found:
        assert found.read() == str(won.index(True)).encode()
    assert [one.name for one in files.list(file.parent)] == ["made.json"]


def test_lines_are_read_each_once_and_in_order(lake: LakeUri) -> None:
    place = lake / "_lakemark/jobs/a.jsonl"
    files_at(place).make_folder(place.parent)
    writer, reader = lines_at(place), lines_at(place)
    assert reader.new() == []
    written = [f"line {number} \u00fc" for number in range(12)]
    for line in written[:2]:
        writer.add(line)
    assert reader.new() == written[:2]
    assert reader.new() == []
    for line in written[2:]:
        writer.add(line)
    assert reader.new() == written[2:]
    assert lines_at(place).new() == written, "another reader"
    reader.remove()
    reader.remove()
    assert lines_at(place).new() == []


class Torn(BytesIO):
    """A file whose reading fails in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= 8:
            raise OSError("torn")
        return super().read(8)


def test_a_file_is_written_whole_or_not_at_all_and_replaces_one_that_is_there(lake: LakeUri) -> None:
    files, file = files_at(lake), lake / "some/file.bin"
    files.write(file, BytesIO(b"first"))
    large = b"0123456789abcdef" * ((1 << 19) + 1)  # two parts of an upload
    files.write(file, BytesIO(large))
    assert files.open(file).read() == large
    with pytest.raises(OSError, match="torn"):
        files.write(file, Torn(b"another content, which is longer"))
    assert files.open(file).read() == large
    assert [found.name for found in files.list(lake)] == ["some/file.bin"]


def test_uploads_that_nobody_ends_are_forgotten_once_they_are_old(lake: LakeUri) -> None:
    files = files_at(lake)
    if lake.scheme != "s3":
        assert files.forget_unfinished(lake, 0) == 0
        return
    bucket, _, prefix = lake.text.removeprefix("s3://").partition("/")
    client().create_multipart_upload(Bucket=bucket, Key=f"{prefix}/silver/t/part-1.parquet")
    client().create_multipart_upload(Bucket=bucket, Key=f"{prefix}-of-others/part-1.parquet")
    assert [*files.list(lake)] == [], "nobody sees it, and it costs"
    assert files.forget_unfinished(lake, 1) == 0
    assert files.forget_unfinished(lake, 0) == 1
    assert files.forget_unfinished(lake, 0) == 0
    assert not files.keeps_versions(lake)
