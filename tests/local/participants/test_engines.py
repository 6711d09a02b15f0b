"""Which engine writes a batch into a table: by what the table is, and by what the batch takes of the job's memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from include.lake.merge import positions
from include.lake.merge.positions import met_rows
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.lake.uri import LakeUri
from include.participants.engines import Choice, bytes_max, choose
from include.pipeline_file import Pipeline
from include.pipeline_file.table_spec import TableSpec
from include.settings import Settings

SETTINGS = replace(Settings.from_environment({}), lane_memory_mb=100)
SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64())])


def spec_of(columns: int = 2, **change: Any) -> TableSpec:
    schema = ", ".join(["id BIGINT", "seq BIGINT", *(f"c{n} STRING" for n in range(columns - 2))])
    sections = {
        "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": schema},
        "change": {"keys": ["id"], "order_by": ["seq"], **change},
        "target": {"table": "lake://silver/p"},
    }
    return TableSpec.of_target(Pipeline.model_validate({"name": "p", **sections}))


def chosen(table: Path, width: int, spec: TableSpec, settings: Settings = SETTINGS) -> Choice:
    return choose(settings, spec, LakeUri(str(table)), width=width, is_chunk=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    DeltaTable.create(str(tmp_path / "t"), SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    return tmp_path / "t"


@pytest.mark.parametrize(
    ("spec", "records_max"),
    [
        (spec_of(), 200_000),
        (spec_of(columns=10), 200_000),
        (spec_of(columns=100), 20_000),
        (spec_of(absent="keep", columns=3), 20_000),
        (spec_of(history="scd2"), 20_000),
    ],
    ids=["narrow", "ten columns", "a hundred columns", "columns left out", "history"],
)
def test_a_batch_beyond_the_memory_goes_by_spark(table: Path, spec: TableSpec, records_max: int) -> None:
    assert chosen(table, records_max, spec).engine == "lane"
    beyond = chosen(table, records_max + 1, spec)
    assert beyond.in_words == f"spark: more than {records_max:,} records"
    assert chosen(table, records_max + 1, spec, replace(SETTINGS, merge_engine="lane")).engine == "lane"
    assert chosen(table, 1, spec, replace(SETTINGS, merge_engine="spark")).engine == "spark"


def test_a_driver_in_a_cluster_has_little_memory() -> None:
    in_cluster = {"LAKEMARK_RUNNER": "spark-submit", "LAKEMARK_SPARK_DEPLOY_MODE": "cluster"}
    beside_the_task = {**in_cluster, "LAKEMARK_SPARK_DEPLOY_MODE": "client"}
    own = {**in_cluster, "LAKEMARK_LANE_MEMORY_MB": "300"}
    found = [Settings.from_environment(env).lane_memory_mb for env in ({}, beside_the_task, in_cluster, own)]
    assert found == [1_000, 1_000, 100, 300]


def test_records_that_are_large_go_by_spark() -> None:
    """A table whose rows Spark computes from rows of the table counts ten times."""
    plain, computed = spec_of(), spec_of(absent="keep", columns=3)
    found = [bytes_max(SETTINGS, specs) for specs in ([plain], [plain, plain], [computed], [])]
    assert found == [33_333_333, 16_666_666, 3_333_333, 100_000_000]
    assert bytes_max(replace(SETTINGS, merge_engine="lane"), [computed]) is None


def test_a_table_that_is_not_there_is_made_by_spark(tmp_path: Path) -> None:
    assert chosen(tmp_path / "none", 1, spec_of()).in_words.startswith("spark: the table is not there yet")


def test_keys_that_may_lie_in_too_many_rows_are_sought_by_spark(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": [1, 2, 3], "seq": [1, 1, 1]}, SCHEMA)
    DeltaTable(str(table)).merge(rows, "false", "s", "t").when_not_matched_insert_all().execute()
    monkeypatch.setattr(positions, "_ROWS_MAX", 3)
    seen, keys = Snapshot.of(LakeUri(str(table))), pa.table({"id": [2]})
    assert len(met_rows(seen, keys, {}).row) == 1
    monkeypatch.setattr(positions, "_ROWS_MAX", 2)
    with pytest.raises(UnfitError, match="more than 2 rows"):
        met_rows(seen, keys, {})
    assert len(met_rows(seen, pa.table({"id": [7]}), {}).row) == 0, "statistics exclude that key"


def test_rows_of_the_table_that_are_large_go_by_spark(table: Path) -> None:
    """A row that depends on several changes is brought to memory whole, whatever its size in the file."""
    rows = pa.table({"id": range(100), "seq": range(100), "text": ["x" * 10_000] * 100})
    write_deltalake(str(table), rows, mode="append", schema_mode="merge")
    snapshot, keys, wanted = Snapshot.of(LakeUri(str(table))), rows.select(["id"]), {"text": "t.text"}
    assert len(met_rows(snapshot, keys, wanted, bytes_max=2_000_000).key) == 100
    with pytest.raises(UnfitError, match="more than 0 MiB in the rows that are needed"):
        met_rows(snapshot, keys, wanted, bytes_max=900_000)
    assert chosen(table, 1, spec_of(absent="keep", columns=3)).bytes_max == 3_333_333
    assert chosen(table, 1, spec_of(absent="keep", columns=3), replace(SETTINGS, merge_engine="lane")).bytes_max is None
