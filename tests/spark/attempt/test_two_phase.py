"""Real attempts whose commit moves together with a table of PostgreSQL (`mode: two_phase`), by both engines."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from include.delivery.creating import create, needed
from include.lake.log_store import LOG
from include.lake.stores import files_at
from include.pipeline_file import Pipeline
from include.settings import Settings
from spark_jobs.tables import spark_write
from tests.support.sink_servers import PostgresServer
from tests.support.world import World, changes, newest_by_key

pytestmark = pytest.mark.on_both_lakes
ENGINES = ("lane", "spark")


def by(engine: str, world: World) -> World:
    told = {**world.settings.environment, "LAKEMARK_MERGE_ENGINE": engine}
    return replace(world, settings=Settings.from_environment(told))


def with_sink(world: World, postgres: PostgresServer) -> Pipeline:
    """A pipeline whose sink moves with it."""
    postgres.clear()
    pipeline = world.pipeline(world.topic(), sinks={"app": postgres.section(mode="two_phase")})
    create(pipeline, "app", needed(pipeline, "app"))
    return pipeline


def send(world: World, pipeline: Pipeline, rows: list[dict[str, Any]]) -> None:
    world.produce(pipeline.source.topics[0], rows)


def assert_both_are_right(world: World, pipeline: Pipeline, postgres: PostgresServer) -> None:
    expected = sorted((row["id"], row["seq"], row["name"]) for row in newest_by_key(world.sent).values())
    assert sorted((row["id"], row["seq"], row["name"]) for row in world.rows(pipeline)) == expected
    assert postgres.held() == expected
    assert postgres.prepared() == []


def test_each_batch_is_in_both_by_either_engine(world: World, postgres: PostgresServer) -> None:
    pipeline = with_sink(world, postgres)
    for number, engine in enumerate((*ENGINES, *ENGINES)):
        send(world, pipeline, changes(range(number * 5, number * 5 + 20), number))
        by(engine, world).run_batch(pipeline)
        assert_both_are_right(world, pipeline, postgres)
    left = [file.name for file in files_at(world.table(pipeline, "target")).list(world.table(pipeline, "target") / LOG)]
    assert [name for name in left if name.endswith(".tmp")] == []


@pytest.mark.parametrize("point", ["sink.prepared", pytest.param("sink.landed", marks=pytest.mark.slow)])
def test_a_job_that_is_killed_is_ended_by_the_next(world: World, postgres: PostgresServer, point: str) -> None:
    pipeline = with_sink(world, postgres)
    for number, engine in enumerate(ENGINES):
        send(world, pipeline, changes(range(10), number))
        world.coordinator(pipeline).plan()
        killed = by(engine, world).job(pipeline, world.key(pipeline, number), LAKEMARK_TEST_FAULT=f"{point}=kill")
        told = killed.communicate(timeout=300)
        assert killed.returncode == -signal.SIGKILL, told
        assert len(postgres.prepared()) == 1
        outcome = by(engine, world).attempt(pipeline, number).outcome
        assert outcome == ("applied" if point == "sink.prepared" else "already_applied")
        world.settle(pipeline, number)
        world.lakemark("sinks", "deliver", pipeline.name)
        assert_both_are_right(world, pipeline, postgres)


@pytest.mark.slow
def test_a_commit_of_sparks_that_another_writer_overtakes_is_made_again(
    world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = with_sink(world, postgres)
    send(world, pipeline, changes(range(10), 0))
    world.run_batch(pipeline)
    send(world, pipeline, changes(range(5, 15), 1))
    staged, seen = spark_write.staged_commit, list[int]()

    def overtaken(error: Exception) -> tuple[int, str] | None:
        found = staged(error)
        if found is not None:
            seen.append(found[0])
            if len(seen) == 1:
                with world.session() as session:
                    table = world.table(pipeline, "target")
                    session.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('user.note' = 'x')")
        return found

    monkeypatch.setattr(spark_write, "staged_commit", overtaken)
    by("spark", world).run_batch(pipeline)
    assert [version - seen[0] for version in seen] == [0, 1]
    assert_both_are_right(world, pipeline, postgres)
