"""A RESTORE of a table before the point rolls rows back and leaves markers as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.lake.uri import LakeUri
from include.protocol.errors import TargetBehindLedger
from tests.support.advice import follow
from tests.support.world import World, as_states, changes, read_table, states_by_key


def restore(world: World, path: LakeUri | Path | str | None, version: int) -> None:
    with world.session() as spark:
        spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {version}")


@pytest.mark.slow
def test_i11_a_history_that_is_rolled_back_while_a_batch_is_planned_is_noticed(world: World) -> None:
    topic = world.topic(partitions=1)
    target = {"table": f"lake://silver/{topic}", "history_table": f"lake://silver/{topic}_history"}
    pipeline = world.pipeline(topic, target=target)
    for seq in (1, 2):
        world.produce(topic, changes(range(5), seq, f"v{seq}-"), 1)
        assert world.run_batch(pipeline) is not None
    world.produce(topic, changes(range(5), 3, "v3-"), 1)
    world.coordinator(pipeline).plan()
    history = world.table(pipeline, "history")
    restore(world, history, 1)
    assert len(as_states(read_table(history))[1]) == 1, "one state of each key is left"
    with pytest.raises(TargetBehindLedger):
        world.coordinator(pipeline).plan()
    assert [error["error"] for error in follow(world, pipeline)] == ["TargetBehindLedger"]
    assert as_states(read_table(history)) == states_by_key(world.sent)
