"""An audit finds a data file that is not as it was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.audit.auditor import audit
from include.control.coordinator import Coordinator
from tests.support.batches import source
from tests.support.hand_made import make_target
from tests.support.tables_before import ask, with_tables


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """A pipeline with a batch, and a target with a row."""
    ask(monkeypatch, source({("t", 0): (0, 10)}))
    coordinator = with_tables(tmp_path)
    coordinator.plan()
    target = make_target(coordinator)
    schema = DeltaTable(target).to_pyarrow_table().schema
    write_deltalake(target, pa.Table.from_pylist([{}], schema), mode="append")
    return coordinator


@pytest.mark.parametrize("harm", ["emptied", "removed"])
def test_a_harmed_data_file_is_a_finding(pipeline: Coordinator, harm: str) -> None:
    target = Path(str(pipeline.tables.target))
    [file] = target.rglob("*.parquet")
    before = audit(pipeline.settings, pipeline.pipeline).findings
    assert not [finding for finding in before if file.name in finding.what]
    file.write_bytes(b"") if harm == "emptied" else file.unlink()
    found = [f for f in audit(pipeline.settings, pipeline.pipeline).findings if file.name in f.what]
    assert [(finding.table, "a table cannot be read" in finding.what) for finding in found] == [("target", True)]
