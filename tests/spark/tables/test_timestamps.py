"""Timestamps of all centuries, in every kind of table that Spark writes, as different readers see them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.audit.auditor import audit
from include.lake.data_files import file_of_int96
from include.lake.delta_tables import open_table
from include.participants.catalog import Catalog
from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.commit_metadata import CommitMetadata
from include.protocol.counts import SourceCounts
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.engine import session
from spark_jobs.engine.session import fit
from spark_jobs.tables.merging import prepared
from tests.support.commits import land
from tests.support.records import RECORDS
from tests.support.world import World, as_dict, read_table

MOMENTS = [
    "0001-01-01T00:00:00Z",
    "1000-01-01T00:00:00Z",
    "1582-10-04T23:59:59Z",
    "1582-10-10T12:00:00Z",  # a day that the calendar of the time does not have
    "1582-10-15T00:00:00Z",
    "1677-09-21T00:12:43Z",  # the last second that 64 bits of nanoseconds do not hold
    "1883-11-18T17:00:00Z",
    "1900-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "2026-03-29T00:59:59.999999Z",  # hours that do not exist, or exist twice, when summer time begins and ends
    "2026-03-29T01:30:00Z",
    "2026-10-25T00:30:00Z",
    "2026-10-25T01:30:00Z",
    "2262-04-11T23:47:17Z",
    "9999-12-31T23:59:59.999999Z",
]
AS_DATES = [datetime.fromisoformat(moment).astimezone(UTC) for moment in MOMENTS]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = sorted((at - EPOCH) // (at.resolution) for at in AS_DATES)
SCHEMA = "id BIGINT, moment TIMESTAMP, inside STRUCT<moment: TIMESTAMP>, many ARRAY<TIMESTAMP>"


def value(n: int, moment: str) -> bytes:
    return json.dumps({"id": n, "moment": moment, "inside": {"moment": moment}, "many": [moment]}).encode()


def seen_by_spark(spark: SparkSession, path: str, column: str) -> list[int]:
    rows = spark.read.format("delta").load(path).select(F.unix_micros(F.expr(column)).alias("micros"))
    return sorted(row.micros for row in rows.collect())


def seen_by_others(path: str, column: str) -> dict[str, list[int]]:
    """What deltalake, DuckDB and pyarrow see."""
    table = DeltaTable(path)
    files = [str(Path(path, name)) for name in pa.table(table.get_add_actions()).column("path").to_pylist()]
    query = QueryBuilder().register("t", table).execute(f"select {column} as found from t")
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    of_duckdb = database.execute(f"SELECT epoch_us({column}) FROM read_parquet(?)", [files]).fetchall()
    of_pyarrow = [at for file in files for at in _at(pq.read_table(file), column)]
    return {
        "deltalake": sorted(
            pa.table(query.read_all())["found"].cast(pa.timestamp("us", "UTC")).cast("int64").to_pylist()
        ),
        "duckdb": sorted(at for (at,) in of_duckdb),
        "pyarrow": sorted(of_pyarrow),
    }


def _at(table: pa.Table, column: str) -> list[int]:
    name, *parts = column.replace("'", "").replace("]", "").split("[")
    found = table[name]
    for part in parts:
        found = pc.list_element(found, int(part) - 1) if part.isdigit() else pc.struct_field(found, part)
    return found.cast(pa.timestamp("us", "UTC")).cast("int64").to_pylist()


@pytest.mark.on_local_lake  # two of the readers open files
def test_i9_every_reader_sees_the_same_times_in_every_kind_of_table(world: World) -> None:
    pipeline = world.pipeline(
        "t",
        source={"schema": SCHEMA},
        change={"order_by": ["moment"]},
        target={"history_table": "lake://silver/h"},
        archive="lake://bronze/a",
    )
    batch = Batch(pipeline.name, 1, 0, (OffsetRange("t", 0, 0, 2 * len(MOMENTS)),), {"t": "i"}, "c")
    good = [(None, value(n, at), "t", 0, n, AS_DATES[n]) for n, at in enumerate(MOMENTS)]
    bad = [(None, b"no json", "t", 0, len(MOMENTS) + n, at) for n, at in enumerate(AS_DATES)]
    counts = SourceCounts(2 * len(good), len(bad), 0, 0, len(good), 0)

    def metadata(role: str) -> CommitMetadata:
        return CommitMetadata.of(batch, role, counts, {}, "attempt", "test", of_history=role == "history")

    paths = {role: world.settings.lake / role for role in ("target", "history", "archive", "quarantine")}
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        records = spark.createDataFrame([*good, *bad], RECORDS).localCheckpoint()
        judged = decode(records, pipeline).localCheckpoint()
        with_headers = records.withColumn("headers", F.lit(None).cast("array<struct<key: string, value: binary>>"))
        of_batch = {"generation": F.lit(1), "batch_id": F.lit(0).cast("bigint")}
        archived = with_headers.withColumn("topic_id", F.lit("i")).withColumns(of_batch)
        catalog = {p.role: p for p in Catalog.of(pipeline).participants}
        land(spark, paths["archive"], archived, catalog["archive"].spec, metadata("archive"))
        set_aside = judged.where("reason IS NOT NULL").withColumns(of_batch).drop("headers", "row")
        own = [column.name for column in catalog["quarantine"].spec.columns]
        land(spark, paths["quarantine"], set_aside.select(*own), catalog["quarantine"].spec, metadata("quarantine"))
        history, target = TableSpec.of_history(pipeline), TableSpec.of_target(pipeline)
        all_ = prepared(dispositions(judged, pipeline, F.lit(True)), history, batch)
        land(spark, paths["history"], all_, history, metadata("history"))
        changes = prepared(dispositions(judged, pipeline), target, batch)
        land(spark, paths["target"], changes, target, metadata("target"))
        of_rows = ["moment", "inside['moment']", "many[1]"]
        columns = {
            "target": of_rows,
            "history": [*of_rows, "valid_from"],
            "quarantine": ["timestamp"],
        }
        for role, names in columns.items():
            assert file_of_int96(open_table(paths[role])) is None, role
            for name in names:
                assert seen_by_spark(spark, str(paths[role]), name.replace("[1]", "[0]")) == MICROS, (role, name)
                readers = seen_by_others(str(paths[role]), name)
                assert readers == dict.fromkeys(readers, MICROS), (role, name)
        readers = seen_by_others(str(paths["archive"]), "timestamp")
        assert readers == dict.fromkeys(readers, sorted(2 * MICROS))
        assert seen_by_spark(spark, str(paths["archive"]), "timestamp") == sorted(2 * MICROS)


@pytest.mark.slow
def test_files_that_hold_int96_are_named_by_the_audit_and_written_anew_by_maintenance(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic(partitions=1)
    name = "old"
    target = {"table": f"lake://silver/{name}", "cluster_by": ["id"]}
    change = {"order_by": ["moment"]}
    archive = f"lake://bronze/{name}"
    pipeline = world.pipeline(topic, name, source={"schema": SCHEMA}, change=change, target=target, archive=archive)
    tables = world.coordinator(pipeline).tables
    roles = {p.name: p.uri(world.settings) for p in Catalog.of(pipeline).participants}
    assert sorted(roles) == ["archive", "quarantine", "target"]
    world.produce(topic, [*(value(n, at) for n, at in enumerate(MOMENTS)), b"no json"], 1)
    with monkeypatch.context() as before:
        before.setitem(session._SESSION, "spark.sql.parquet.outputTimestampType", "INT96")
        world.run_batch(pipeline)
        with world.session() as spark:  # into one file, which no later OPTIMIZE touches
            spark.sql(f"OPTIMIZE delta.`{tables.target}`").collect()
    found = audit(world.settings, pipeline, deep=True)
    assert [finding.where.split(", ")[1] for finding in found.findings] == ["target", "archive", "quarantine"]
    assert found.recomputed is None
    assert all(f"`lakemark maintain {name}`" in finding.action for finding in found.findings)
    assert min(row["moment"] for row in as_dict(world.rows(pipeline)).values()).year > 1  # as others see them

    maintained = world.lakemark("maintain", name)
    assert maintained.returncode == 0, maintained.stderr
    for role, path in roles.items():
        assert file_of_int96(open_table(path)) is None, role
    assert sorted(row["moment"] for row in read_table(tables.target)) == AS_DATES
    assert audit(world.settings, pipeline, deep=True).findings == ()
    version = world.version(pipeline)
    assert world.lakemark("maintain", name).returncode == 0
    assert world.version(pipeline) == version  # nothing more is due
    world.produce(topic, [value(1, "1500-01-01T00:00:00Z"), value(2, MOMENTS[-1])], 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline))[2]["moment"] == AS_DATES[-1]
    assert audit(world.settings, pipeline, deep=True).findings == ()
