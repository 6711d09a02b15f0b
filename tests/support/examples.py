"""Feeds an example pipeline, and reads what it made."""

from __future__ import annotations

from typing import Any

from include.pipeline_file import Pipeline
from include.settings import PROJECT_ROOT
from tests.support.world import World

EXAMPLES = PROJECT_ROOT / "include" / "pipelines" / "examples"


def example(world: World, name: str) -> Pipeline:
    """The file as it is, on a topic of one partition."""
    (world.settings.pipelines / f"{name}.yaml").write_text((EXAMPLES / f"{name}.yaml").read_text())
    pipeline = world.load(name)
    world.create_topic(pipeline.source.topics[0], 1)
    return pipeline


def send(world: World, pipeline: Pipeline, *records: tuple[Any, Any]) -> None:
    keys, values = zip(*records, strict=True)
    world.produce(pipeline.source.topics[0], values, 1, keys=keys)


def visible(world: World, pipeline: Pipeline, *columns: str) -> list[tuple]:
    rows = [row for row in world.rows(pipeline) if not row["_lakemark"]["deleted"]]
    return sorted(tuple(str(row[name]) for name in columns) for row in rows)


def postgres(op: str, lsn: int, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"connector": "postgresql", "lsn": lsn}, "ts_ms": 1}
