"""Random change streams, cut into batches at random, with ranges read again, records replayed and lost attempts taken
back in between: the table is the oracle's, and so is the history beside it.

Hundreds of streams at once: each is a case of its own, with keys and partitions of its own, and all share the batches.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from spark_jobs.engine.session import fit
from tests.support.change_streams import Change, Semantics, cut, history, newest, stream
from tests.support.replica import (
    Replica,
    assert_one_current_row_per_key_at_every_version,
    history_of,
    lanes,
    rows_of,
)
from tests.support.world import World, read_table

ENGINES = [
    "lane and Spark in turns",
    pytest.param("lane", marks=pytest.mark.slow),
    pytest.param("Spark", marks=pytest.mark.slow),
]


ALL = Semantics(("seq",), patches=True, moves=True, track=("name",))
CASES = [
    pytest.param(ALL, 30, 2, id="everything"),
    pytest.param(Semantics((), moves=True), 20, 2, id="whole rows", marks=pytest.mark.slow),
    pytest.param(ALL, 500, 8, id="everything, many", marks=pytest.mark.slow),
    pytest.param(Semantics(("seq",), track=()), 500, 8, id="a column, all history", marks=pytest.mark.slow),
    pytest.param(Semantics((), moves=True), 500, 8, id="Kafka's order", marks=pytest.mark.slow),
    pytest.param(
        Semantics(("kafka.timestamp",), patches=True, track=(), by_tombstone=True),
        500,
        8,
        id="Kafka's time, tombstones",
        marks=pytest.mark.slow,
    ),
    pytest.param(Semantics(("kafka.timestamp", "seq"), patches=True), 500, 8, id="two parts", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("is_older", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["", "tables of before"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("semantics", "cases", "batches"), CASES)
def test_i9_any_stream_in_any_batches_is_what_one_pass_in_order_makes(
    world: World, tmp_path: Path, semantics: Semantics, cases: int, batches: int, engine: str, is_older: bool
) -> None:
    chance = Random(f"{semantics} {cases}")
    lane = lanes(engine)
    streams = [stream(case, chance, semantics) for case in range(cases)]
    steps = cut(streams, batches, chance)
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(), tmp_path, lane, is_older)
        seen, aside = list[Change](), list[Change]()
        for step in steps:
            quarantined = {id(change) for change in step if chance.random() < 0.1}
            live = [change for change in step if id(change) not in quarantined]
            another_program = chance.random() < 0.5
            replica.merge(live, stray=[c for c in live if chance.random() < 0.7] if another_program else None)
            aside += [change for change in step if id(change) in quarantined]
            seen += [change for change in step if id(change) not in quarantined]
            if chance.random() < 0.5:  # a backfill of some of what was read
                again = {change.case for change in seen if chance.random() < 0.2}
                replica.merge([change for change in seen if change.case in again and chance.random() < 0.7], again=True)
            if chance.random() < 0.3:  # a replay of what was set aside
                replica.merge(aside, again=True)
                aside = []
        replica.merge(aside, again=True)
    everything = [change for changes in streams for change in changes]
    found = rows_of(read_table(replica.table))
    assert found == newest(everything, semantics)
    assert len(found) > cases
    assert replica.stale > 0
    if semantics.track is not None:
        assert history_of(read_table(replica.history), semantics) == history(everything, semantics)
        assert_one_current_row_per_key_at_every_version(replica.history)


@pytest.mark.slow
@pytest.mark.parametrize("patches", [True, False])
def test_i9_a_column_that_is_declared_later_is_right_once_all_is_read_again(
    world: World, tmp_path: Path, patches: bool
) -> None:
    semantics = Semantics(("seq",), patches=patches, track=())
    chance, lane = Random(f"later {patches}"), lanes("lane and Spark in turns")
    streams = [stream(case, chance, semantics) for case in range(40)]
    before = [change for changes in streams for change in changes[: len(changes) // 2]]
    since = [change for changes in streams for change in changes[len(changes) // 2 :]]
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(note=""), tmp_path, lane)
        replica.merge(before)
        replica = Replica(spark, semantics.pipeline(), tmp_path, lane, landed=replica.landed)
        replica.merge(since)
        first = {change.case for change in before if chance.random() < 0.1}
        # An older change that holds the column may be read again before the newer one that does not, or does.
        for again in (lambda change: change.case in first, lambda change: change.case not in first):
            replica.merge([change for change in before if again(change)], again=True)
        newer = semantics.pipeline(note="")
        replica = Replica(spark, newer, tmp_path, lane, landed=replica.landed, read_again=replica.read_again)
        replica.merge(since, again=True)  # by an attempt that does not know the column: it stays as it is
    everything = [*before, *since]
    found = rows_of(read_table(replica.table))
    assert found == newest(everything, semantics)
