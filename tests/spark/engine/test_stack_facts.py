"""Facts of Delta, Spark and deltalake that the protocol rests on; a new version of the stack must keep them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession

from tests.support.world import World, read_table

APP = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def spark(world: World) -> Iterator[SparkSession]:
    with world.session() as spark:
        yield spark


@contextmanager
def marked(spark: SparkSession, app: str, version: int) -> Iterator[None]:
    for key, value in {APP: app, VERSION: str(version), METADATA: f"v{version}"}.items():
        spark.conf.set(key, value)
    yield
    for key in (APP, VERSION, METADATA):
        spark.conf.unset(key)


def merge(spark: SparkSession, path: Path, ids: str) -> list:
    return spark.sql(
        f"MERGE INTO delta.`{path}` t USING (SELECT explode(array({ids})) AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ).collect()


def test_a_marked_merge_lands_once_with_its_metadata(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    with marked(spark, "app", 5):
        assert len(merge(spark, path, "1, 2")) == 1
        assert merge(spark, path, "3") == []  # the same marker with other data: silently ignored, hence fingerprints
    with marked(spark, "app", 4):
        assert merge(spark, path, "4") == []  # and a lower one
    with marked(spark, "app", 6):
        assert len(merge(spark, path, "1, 2")) == 1  # changes nothing, still commits its marker
    table = DeltaTable(path)
    assert table.transaction_version("app") == 6
    assert [c.get("userMetadata") for c in table.history()] == ["v6", "v5", None]
    assert {row["id"] for row in read_table(str(path))} == {1, 2}


def test_restore_does_not_roll_markers_back(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    with marked(spark, "app", 0):
        merge(spark, path, "1")
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    assert read_table(str(path)) == []
    with marked(spark, "app", 0):
        assert merge(spark, path, "1") == []  # the replay would be skipped: hence generations
    assert DeltaTable(path).transaction_version("app") == 0


def test_deltalake_reads_rows_under_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT explode(sequence(1, 10)) AS id")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id <= 4")
    assert (
        spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first().operationMetrics["numDeletionVectorsAdded"] != "0"
    )
    query = QueryBuilder().register("t", DeltaTable(path)).execute("select count(*) as n from t")
    assert pa.table(query.read_all()).to_pylist() == [{"n": 6}]


def test_a_deltalake_append_with_a_marker_is_a_compare_and_swap(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    DeltaTable.create(str(tmp_path / "t"), schema)
    first, second = DeltaTable(tmp_path / "t"), DeltaTable(tmp_path / "t")

    def append(table: DeltaTable, version: int) -> None:
        rows = pa.table({"n": [version]}, schema=schema)
        marker = CommitProperties(app_transactions=[Transaction("ledger", version)])
        write_deltalake(table, rows, mode="append", commit_properties=marker)

    append(first, 0)
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        append(second, 0)
    second = DeltaTable(tmp_path / "t")
    append(second, 1)
    assert second.transaction_version("ledger") == 1


def test_a_merge_whose_source_reads_the_target_reads_the_version_that_it_is_checked_against(
    world: World, tmp_path: Path
) -> None:
    """History (SCD2) rests on it: what a MERGE computes from the table must be of the version that it commits to."""
    path = tmp_path / "t"
    with world.session() as spark, world.session() as other:
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT, seen INT) USING delta")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 0)").collect()
        many = spark.read.format("delta").load(str(path)).groupBy().count()
        many.selectExpr("100 AS id", "CAST(count AS INT) AS seen").createOrReplaceTempView("of_target")
        other.sql(f"INSERT INTO delta.`{path}` VALUES (2, 0)").collect()  # after the source was resolved
        spark.sql(
            f"MERGE INTO delta.`{path}` t USING of_target s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        ).collect()
    assert {row["id"]: row["seen"] for row in read_table(str(path))} == {1: 0, 2: 0, 100: 2}


def test_a_table_whose_types_were_widened_is_not_read_without_spark(world: World, tmp_path: Path) -> None:
    """Why a wider type asks for a new table: status, audit and ledger read tables without a JVM."""
    path = tmp_path / "t"
    with world.session() as spark:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
        )
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)").collect()
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE BIGINT")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({2**40})").collect()
    with pytest.raises(DeltaError, match="TypeWidening"):
        read_table(str(path))
