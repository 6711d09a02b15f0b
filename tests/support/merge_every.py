"""Pipelines with `merge_every`, what is sent to them, and what must be in their tables."""

from __future__ import annotations

import json

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from tests.support.topics import Sent
from tests.support.world import World, as_dict, changes, newest_by_key, read_table


def lazy(world: World, merge_every: int = 3, **sections: object) -> Pipeline:
    """A pipeline with one partition and batches of ten records."""
    topic = world.topic(partitions=1)
    source = {"limits": {"records_per_batch_max": 10}}
    sections = {"archive": f"lake://bronze/{topic}", "merge_every": merge_every, **sections}
    return world.pipeline(topic, source=source, **sections)


def send(world: World, pipeline: Pipeline, batches: int, seq: int) -> None:
    """So many batches, each with changes of the same keys and of one of its own."""
    for n in range(batches):
        made = [*changes(range(9), seq + n, f"s{seq + n}."), *changes(range(100 + seq + n, 101 + seq + n), seq)]
        world.produce(pipeline.source.topics[0], made, 1)


def run(world: World, pipeline: Pipeline, *options: str) -> list[dict]:
    """What `lakemark run` did, by halves."""
    done = world.lakemark("run", pipeline.name, *options, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_right(world: World, pipeline: Pipeline, deep: bool = True) -> None:
    run(world, pipeline, "--until-caught-up")
    sent = world.sent_to(pipeline)
    good = [record for record in sent if isinstance(record.value, dict)]
    assert as_dict(world.rows(pipeline)) == newest_by_key(good)
    assert archived(world, pipeline) == positions(sent)
    for half in pipeline.halves:
        assert audit(world.settings, half, deep=deep and half is pipeline).findings == ()


def archived(world: World, pipeline: Pipeline) -> list[tuple]:
    rows = read_table(world.coordinator(pipeline).tables.archive or "")
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def positions(sent: list[Sent]) -> list[tuple]:
    return sorted((record.topic, record.partition, record.offset) for record in sent)


def kept(
    world: World,
    merge_every: int | None = None,
    archive: bool = True,
    name: str | None = None,
    topic: str = "",
    **more: object,
) -> Pipeline:
    """A pipeline whose file says `merge_every` or does not; batches of ten records, one partition."""
    topic = topic or world.topic(partitions=1)
    more |= {"archive": f"lake://bronze/{topic}"} if archive else {}
    more |= {"merge_every": merge_every} if merge_every else {}
    return world.pipeline(topic, name, source={"limits": {"records_per_batch_max": 10}}, **more)
