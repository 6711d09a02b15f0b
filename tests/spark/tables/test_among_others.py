"""Batches by either engine, while others do what they like to the tables between them: OPTIMIZE, REORG, RESTORE,
VACUUM, checkpoints of three writers, rows deleted and changed by hand. Four readers see what the oracle says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from spark_jobs.engine.session import fit
from tests.support import strangers
from tests.support.change_streams import Change, Semantics, cut, history, newest, stream
from tests.support.readers import all_readers
from tests.support.replica import Replica, history_of, lanes, rows_of
from tests.support.world import World

_MANY = 60  # batches
KINDS = {
    "everything": Semantics(("seq",), patches=True, moves=True, track=("name",), is_clustered=True),
    "whole rows": Semantics((), moves=True),
    "whole rows, clustered": Semantics(("seq",), is_clustered=True),
    "all history": Semantics(("seq",), track=()),
    "tombstones": Semantics(("kafka.timestamp",), patches=True, track=(), by_tombstone=True),
    "two parts": Semantics(("kafka.timestamp", "seq"), patches=True, moves=True),
}
CASES = [
    pytest.param("everything", 2, id="everything", marks=pytest.mark.slow),
    *(pytest.param(kind, _MANY, id=f"{kind}, many", marks=pytest.mark.slow) for kind in KINDS),
]


@pytest.mark.parametrize(("kind", "batches"), CASES)
def test_i9_whatever_others_do_between_batches_four_readers_see_the_oracles_table(
    world: World, tmp_path: Path, kind: str, batches: int
) -> None:
    semantics, chance = KINDS[kind], Random(f"{kind} {batches}")
    streams = [stream(case, chance, semantics) for case in range(4 * batches)]
    steps = cut(streams, batches, chance)
    done, by_hand, seen = Counter[str](), set[int](), list[Change]()
    with world.session() as spark:
        fit(spark, records=0, rows=0)
        replica = Replica(spark, semantics.pipeline(), tmp_path, lanes("lane and Spark in turns"))
        for number, step in enumerate(steps):
            replica.merge(step)
            seen += step
            if chance.random() < 0.2:  # a backfill of some of what was read
                replica.merge([change for change in seen if chance.random() < 0.1], again=True)
            for table in replica.tables:
                done[strangers.act(spark, table, chance)] += 1
                if chance.random() < 0.1:
                    case = chance.randrange(len(streams))
                    chance.choice([strangers.rows_deleted, strangers.rows_changed])(spark, table, case)
                    by_hand.add(case)
            if number % 8 == 7 or number == batches - 1:
                left = [change for change in seen if change.case not in by_hand]
                for reader, read in all_readers(spark).items():
                    found = {key: row for key, row in rows_of(read(replica.table)).items() if key[0] not in by_hand}
                    assert found == newest(left, semantics), (reader, done)
                    if semantics.track is not None:
                        states = history_of(read(replica.history), semantics)
                        states = {key: rows for key, rows in states.items() if key[0] not in by_hand}
                        assert states == history(left, semantics), (reader, done)
    print(f"{replica.commits} commits; {dict(done)}; {len(by_hand)} of {len(streams)} cases changed by hand")
    assert replica.commits >= batches
    assert len(by_hand) < len(streams) / 2
    assert batches < _MANY or done.keys() == strangers.ACTS.keys()
