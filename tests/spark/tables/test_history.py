"""Tables of history (SCD2) as real batches, backfills and reruns make them."""

from __future__ import annotations

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import OutcomeUnknownError
from tests.support.commits import at_the_point, raising
from tests.support.world import World, as_dict, as_states, changes, newest_by_key, read_table, states_by_key


def with_history(world: World, topic: str, name: str, **sections: object) -> Pipeline:
    tables = {"table": f"lake://silver/{name}", "history_table": f"lake://silver/{name}_history"}
    return world.pipeline(topic, name, target=tables, **sections)


@pytest.mark.slow
def test_i11_history_of_an_attempt_that_got_no_further_is_made_as_the_next_one_decodes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt fails between the two tables; then the pipeline file is changed, and a record is left out.
    (tests/matrix shows that a kill there does no harm.)"""
    topic = world.topic(partitions=1)
    pipeline = with_history(world, topic, "remade")
    world.produce(topic, changes(range(4), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, [*changes(range(4), 3), *changes(range(2), 2, "between")], 1)

    with monkeypatch.context() as patched, pytest.raises(OutcomeUnknownError):
        at_the_point(patched, raising(ConnectionError("gone")))
        world.run_batch(pipeline)
    history = world.table(pipeline, "history")
    assert history is not None
    assert as_states(read_table(history)) == states_by_key(world.sent)  # it has landed there
    assert {row["seq"] for row in world.rows(pipeline)} == {1}  # and not here

    pipeline = with_history(world, topic, "remade", source={"filter": "name NOT LIKE 'between%'"})
    assert world.run_batch(pipeline) is not None
    left = [record for record in world.sent if not record.value["name"].startswith("between")]
    assert as_states(read_table(history)) == states_by_key(left)
    assert as_dict(world.rows(pipeline)) == newest_by_key(left)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_a_backfill_writes_history_anew_and_a_reset_changes_nothing(world: World) -> None:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, "as_target", change={"history": "scd2"})
    world.produce(topic, [*changes(range(3), 2), *changes(range(3), 4), *changes(range(2), 3, "late")], 1)
    world.run_batch(pipeline)
    assert world.counts(pipeline).applied == 8
    assert as_states(world.rows(pipeline)) == states_by_key(world.sent)

    # A column is added: history shows it once its records were read again.
    pipeline = world.pipeline(
        topic,
        "as_target",
        source={"metadata": {"place": "offset"}},
        change={"history": "scd2", "track_columns": ["seq", "name"]},
    )
    done = world.lakemark("backfill", "as_target", "--batches", "0-0")
    assert done.returncode == 0, done.stderr + done.stdout
    assert as_states(world.rows(pipeline)) == states_by_key(world.sent)
    assert {row["place"] for row in world.rows(pipeline)} == set(range(8))
    assert audit(world.settings, pipeline, deep=True).findings == ()

    done = world.lakemark("reset", "as_target", "--from", "earliest", "--reason", "test")
    assert done.returncode == 0, done.stderr
    world.run_batch(pipeline)
    counts = world.counts(pipeline)
    assert (counts.applied, counts.stale) == (0, 8)
    assert as_states(world.rows(pipeline)) == states_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()
