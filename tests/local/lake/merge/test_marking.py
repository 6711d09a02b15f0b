"""A batch that has nothing for a table leaves its marker there, and no rows. Real Delta files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.lake.merge.landing import Marker
from include.lake.merge.marking import commit_marker
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri

SCHEMA = pa.schema([("id", pa.int64())])


def opened(path: Path) -> TableLog:
    log = TableLog.open(LakeUri(str(path)))
    assert log is not None
    return log


@pytest.mark.parametrize("properties", [{}, {"delta.enableChangeDataFeed": "true"}], ids=["plain", "not for the lane"])
def test_a_marker_lands_once_after_the_version_that_was_seen(tmp_path: Path, properties: dict[str, str]) -> None:
    DeltaTable.create(str(tmp_path), SCHEMA, configuration=properties)
    before = opened(tmp_path)
    assert commit_marker(before, Marker("app", 7), "{}")
    assert not commit_marker(before, Marker("app", 8), "{}"), "another commit was faster"
    after = opened(tmp_path)
    assert after.version == before.version + 1
    assert DeltaTable(str(tmp_path)).transaction_version("app") == 7
    assert not DeltaTable(str(tmp_path)).file_uris()


def test_markers_alone_leave_checkpoints(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), SCHEMA)
    for number in range(25):
        assert commit_marker(opened(tmp_path), Marker("app", number), "{}")
    log = opened(tmp_path)
    assert log.tail is not None
    assert log.tail.checkpoint == 20
