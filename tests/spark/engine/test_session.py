"""How Spark is set up and asked for a batch's work."""

from __future__ import annotations

import pytest

from include.pipeline_file.table_spec import TableSpec
from include.protocol.batch import Batch
from include.protocol.ranges import OffsetRange
from spark_jobs.changes.decode import decode
from spark_jobs.changes.dispositions import dispositions
from spark_jobs.engine.session import fit
from spark_jobs.tables.merging import prepared
from tests.support.records import RECORDS
from tests.support.world import World


def test_every_batch_of_a_session_has_the_settings_of_its_own_size(world: World) -> None:
    with world.session() as spark:
        for records, rows, adaptive, partitions in [
            (100, 0, "false", "1"),
            (200_000, 500_000, "true", "10"),
            (30_000, 0, "false", "2"),
            (100, 10**9, "false", "2"),
            (10**9, 10**9, "true", "2000"),
        ]:
            fit(spark, records, rows)
            found = (spark.conf.get("spark.sql.adaptive.enabled"), spark.conf.get("spark.sql.shuffle.partitions"))
            assert found == (adaptive, partitions), (records, rows)


def test_a_record_is_parsed_once_however_often_its_columns_are_mentioned(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = world.pipeline("t", change={"keys": ["id"], "order_by": ["seq"], "delete_when": "name = 'gone'"})
    batch = Batch(pipeline.name, 1, 0, (OffsetRange("t", 0, 0, 1),), {"t": "i"}, "c")
    with world.session() as spark:
        records = spark.createDataFrame([(b"1", b'{"id": 1, "seq": 1}', "t", 0, 0, None)], RECORDS).localCheckpoint()
        rows = dispositions(decode(records, pipeline), pipeline)
        prepared(rows, TableSpec.of_target(pipeline), batch).explain()
    assert capsys.readouterr().out.count("JsonRow") == 1
