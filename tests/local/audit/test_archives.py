"""An archive and its commits: who has written what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from include.audit.beside import archive_findings
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.protocol.batch import Batch
from tests.support.batches import COUNTS, batch, landed
from tests.support.tables_before import uri_before, with_tables


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Participant, str]:
    coordinator = with_tables(tmp_path)
    [found] = [p for p in Catalog.of(coordinator.pipeline).before if p.name == "archive"]
    return found, str(uri_before(coordinator, "archive"))


def appended(folder: str, of: Batch, rows: int) -> TableLog:
    """Writes records of a batch whose commit counts `COUNTS.read`."""
    metadata = replace(landed(of).metadata, role="archive")
    properties = CommitProperties(
        {"userMetadata": metadata.dumps()}, app_transactions=[Transaction(of.app_id, of.batch_id)]
    )
    table = pa.table({"generation": [of.generation] * rows, "batch_id": [of.batch_id] * rows})
    write_deltalake(folder, table, mode="append", commit_properties=properties)
    log = TableLog.open(LakeUri(folder))
    assert log is not None
    return log


def test_an_archive_that_a_pipeline_wrote_under_another_name_is_whole(archive: tuple[Participant, str]) -> None:
    participant, folder = archive
    for name in ("before", "p"):
        log = appended(folder, replace(batch(0), pipeline=name), COUNTS.read)
    assert log.pipelines == ["before", "p"]
    assert list(archive_findings(participant, "p", log)) == []


@pytest.mark.parametrize("rows", [COUNTS.read - 1, COUNTS.read + 1])
def test_records_that_are_not_those_of_the_commits_are_found(archive: tuple[Participant, str], rows: int) -> None:
    participant, folder = archive
    appended(folder, replace(batch(0), pipeline="before"), COUNTS.read)
    [found] = archive_findings(participant, "p", appended(folder, batch(0), rows))
    assert (
        found.what == f"the archive holds {COUNTS.read + rows} records of the batch, its commit says {2 * COUNTS.read}"
    )
