"""All rows of all tables of a pipeline at a moment, and what brings them there: real batches, and VACUUM by hand."""

from __future__ import annotations

import random
from typing import Any

from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline
from tests.support.world import World, read_table

Photo = dict[str, list[dict[str, Any]]]  # by table
OF_BATCH = ("generation", "batch_id")
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"  # 10,000 tasks by default
_CARELESS = "spark.databricks.delta.retentionDurationCheck.enabled"


def with_tables(world: World, name: str, topic: str, beside: str = "history") -> Pipeline:
    """An archive, a quarantine, a target, and a history or a route beside it."""
    routes = [{"table": f"lake://silver/{name}_odd", "when": "id % 2 = 1"}]
    others = {"history": {"history_table": f"lake://silver/{name}_history"}, "routes": {"routes": routes}}
    target = {"table": f"lake://silver/{name}", **others[beside]}
    changes = {"delete_when": "op = 'd'"}
    return world.pipeline(topic, name, change=changes, target=target, archive=f"lake://bronze/{name}")


def records(chance: random.Random, seq: int) -> list[Any]:
    """Changes of a few keys, in no order; some cannot be decoded."""
    found: list[Any] = []
    for n in range(chance.randint(1, 6)):
        op = "d" if chance.random() < 0.15 else "u"
        found.append({"id": chance.randrange(7), "seq": seq + chance.randrange(-9, 9), "name": f"n{seq}.{n}", "op": op})
    return [*found, *([b"no json"] if chance.random() < 0.4 else [])]


def photo(world: World, pipeline: Pipeline) -> Photo:
    """All rows of all tables."""
    tables = Catalog.of(pipeline).participants
    return {table.name: read_table(table.uri(world.settings)) for table in tables}


def whole(taken: Photo) -> dict[str, list[str]]:
    return {name: sorted(map(repr, rows)) for name, rows in taken.items()}


def without_batches(taken: Photo) -> dict[str, list[str]]:
    """The same, but for the batches that brought the rows: what is read again comes with others."""

    def plain(row: dict[str, Any]) -> str:
        return repr({k: v for k, v in {**row, **row.get("_lakemark", {})}.items() if k not in ("_lakemark", *OF_BATCH)})

    return {name: sorted(map(plain, rows)) for name, rows in taken.items()}


def batch_of(world: World, pipeline: Pipeline, values: list[Any]) -> None:
    world.produce(pipeline.source.topics[0], values, 2)
    assert world.run_batch(pipeline) is not None


def vacuumed(world: World, table: LakeUri) -> None:
    """By hand: nothing but the newest version is left."""
    with world.session() as spark:
        spark.conf.set(_CARELESS, "false")
        spark.conf.set(_LISTING, "2")
        try:
            spark.sql(f"OPTIMIZE delta.`{table}`").collect()
            spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS").collect()
        finally:
            spark.conf.unset(_CARELESS)
            spark.conf.unset(_LISTING)
