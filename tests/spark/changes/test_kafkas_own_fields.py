"""Kafka's own fields as columns of the target: read from a real broker, kept by the quarantine, and by a replay."""

from __future__ import annotations

import pytest

from include.audit.auditor import audit
from tests.spark.changes.test_quality import NAMED
from tests.support.world import World, as_dict


@pytest.mark.slow
def test_headers_and_positions_are_columns_also_of_what_is_replayed(world: World) -> None:
    topic = world.topic(1)
    metadata = {
        "trace": "headers.trace-id",
        "every": "headers",
        "sent_at": "timestamp",
        "place": "offset",
        "raw": "key",
    }
    world.write_suite("named", [NAMED])
    name = "with_headers"
    pipeline = world.pipeline(topic, name, source={"metadata": metadata}, quality={"suite": "named"})
    records = [{"id": 1, "seq": 1, "name": "a"}, {"id": 2, "seq": 1}]
    headers = [("trace-id", b"first"), ("trace-id", b"t1"), ("other", b"o")]
    world.produce(topic, records, 1, keys=[b"k1", b"k2"], headers=headers)
    world.produce(topic, [{"id": 3, "seq": 1, "name": "bare"}], 1)
    world.run_batch(pipeline)
    world.write_suite("named", [])
    assert world.lakemark("quarantine", "replay", name).returncode == 0
    rows = as_dict(world.rows(pipeline))
    assert {n: (row["trace"], row["place"], row["raw"]) for n, row in rows.items()} == {
        1: ("t1", 0, "k1"),
        2: ("t1", 1, "k2"),
        3: (None, 2, None),
    }
    assert rows[2]["every"] == [{"key": n, "value": v.decode()} for n, v in headers]
    assert rows[2]["sent_at"] >= rows[1]["sent_at"]
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed is not None and report.recomputed.rows_equal == 3
