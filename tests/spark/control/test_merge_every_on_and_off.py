"""`merge_every` is taken out of a file and put back: nothing is lost, and nothing is merged twice."""

from __future__ import annotations

import shutil

import pytest

from include.audit.auditor import audit
from include.protocol.errors import OffsetsExpired, RetryableError
from include.protocol.planning import Idle
from tests.support.merge_every import archived, assert_right, kept, positions, run, send
from tests.support.world import World, as_dict, as_states, newest_by_key, read_table, states_by_key


@pytest.mark.slow
def test_a_pipeline_that_merged_from_kafka_goes_on_from_the_archive_and_back(world: World) -> None:
    topic = world.topic(partitions=1)
    sections = {"source": {"limits": {"records_per_batch_max": 10}}, "archive": f"lake://bronze/{topic}"}
    plain = world.pipeline(topic, **sections)
    send(world, plain, 2, 1)
    world.run_batch(plain)
    world.coordinator(plain).plan()  # from Kafka, and not merged
    pipeline = world.pipeline(topic, plain.name, **sections, merge_every=2)
    with pytest.raises(RetryableError, match="__landing"):
        world.attempt(pipeline, 1)
    send(world, pipeline, 1, 5)
    run(world, pipeline, "--until-caught-up")
    assert_right(world, pipeline)
    assert [r.batch.width for r in world.coordinator(pipeline).ledger.state().batches] == [10, 10, 10]
    back = world.pipeline(topic, plain.name, **sections)
    send(world, back, 1, 7)
    run(world, back)
    assert as_dict(world.rows(back)) == newest_by_key(world.sent_to(back))
    again = world.pipeline(topic, plain.name, **sections, merge_every=2)
    send(world, again, 1, 8)
    run(world, again, "--until-caught-up")
    assert as_dict(world.rows(again)) == newest_by_key(world.sent_to(again))
    assert audit(world.settings, again, deep=True).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("until", ["settled", "landed"])
def test_i7_a_landing_goes_on_behind_what_the_pipeline_has_archived_itself(world: World, until: str) -> None:
    """The line is taken out and put back. Meanwhile Kafka has dropped what was merged without it."""
    first = kept(world, merge_every=2)
    name, topic = first.name, first.source.topics[0]
    send(world, first, 2, 1)
    run(world, first, "--until-caught-up")
    plain = kept(world, None, True, name, topic)
    send(world, plain, 2, 4)
    assert world.run_batch(plain) is not None
    world.coordinator(plain).plan()
    world.attempt(plain, 2)
    if until == "settled":
        world.settle(plain, 2)
    world.delete_before(topic, 0, 40)

    again = kept(world, 2, True, name, topic)
    landing = again.landing
    assert landing is not None
    if until == "settled":
        assert isinstance(world.coordinator(landing).preview(), Idle)
    send(world, again, 2, 8)
    assert_right(world, again, deep=False)  # the archive holds every position once
    assert world.rows(again)
    state = world.coordinator(landing).ledger.state()
    assert (state.generation, state.generations[0].origin, state.generations[0].skipped) == (2, "archive", ())
    [offset] = state.generations[0].start_offsets.values()
    assert offset == 40
    assert audit(world.settings, landing).on_record == ()
    shutil.rmtree(world.on_disk(world.coordinator(again).tables.target))  # all of it is in the archive
    done = world.lakemark("reset", name, "--from", "earliest", "--reason", "lost")
    assert done.returncode == 0, done.stderr
    assert_right(world, again, deep=False)


@pytest.mark.slow
def test_i7_what_the_archive_lacks_a_landing_reads_from_kafka(world: World) -> None:
    """The file had no `archive` for a while."""
    first = kept(world, merge_every=2)
    name, topic = first.name, first.source.topics[0]
    send(world, first, 2, 1)
    run(world, first, "--until-caught-up")
    bare = kept(world, None, False, name, topic)
    send(world, bare, 1, 4)
    assert world.run_batch(bare) is not None
    plain = kept(world, None, True, name, topic)
    send(world, plain, 1, 5)
    assert world.run_batch(plain) is not None
    again = kept(world, 2, True, name, topic)
    send(world, again, 1, 8)
    run(world, again, "--until-caught-up")
    assert as_dict(world.rows(again)) == newest_by_key(world.sent_to(again))
    assert sorted(set(archived(world, again))) == positions(world.sent_to(again))
    assert audit(world.settings, again, deep=True).findings == ()


@pytest.mark.slow
def test_i7_what_only_the_archive_holds_is_merged_by_putting_the_line_back(world: World) -> None:
    """It was taken out before all that had landed was merged, and Kafka has dropped it."""
    first = kept(world, merge_every=9)
    name, topic = first.name, first.source.topics[0]
    send(world, first, 2, 1)
    run(world, first)
    run(world, first)
    assert world.rows(first) == []
    world.delete_before(topic, 0, 20)
    plain = kept(world, None, True, name, topic)
    with pytest.raises(OffsetsExpired, match="put `merge_every` back") as failure:
        world.coordinator(plain).plan()
    assert "skip" not in failure.value.action
    again = kept(world, 9, True, name, topic)
    assert_right(world, again, deep=False)
    plain = kept(world, None, True, name, topic)
    send(world, plain, 1, 5)
    run(world, plain)
    assert as_dict(world.rows(plain)) == newest_by_key(world.sent_to(plain))


@pytest.mark.slow
@pytest.mark.parametrize("reset_first", [False, True])
def test_i7_a_landing_begins_where_the_archive_was_left_out(world: World, reset_first: bool) -> None:
    """The file left the archive and the history out for a batch, and named `merge_every` when it named them again. The
    history is filled from the archive, so that must hold all."""
    topic = world.topic(partitions=1)
    history = {"target": {"history_table": f"lake://silver/{topic}_history"}}
    full = kept(world, None, True, None, topic, **history)
    name = full.name
    send(world, full, 1, 1)
    assert world.run_batch(full) is not None
    bare = kept(world, None, False, name, topic)
    send(world, bare, 1, 9)
    assert world.run_batch(bare) is not None
    again = kept(world, 2, True, name, topic, **history)
    if not reset_first:
        assert world.lakemark("run", f"{name}__landing").returncode == 0
    met = world.lakemark("run", name)
    assert "left this table out" in met.stderr
    assert world.lakemark("reset", name, "--from", "1", "--reason", "left out").returncode == 0
    send(world, again, 1, 50)
    run(world, again, "--until-caught-up")
    assert as_dict(world.rows(again)) == newest_by_key(world.sent_to(again))
    assert archived(world, again) == positions(world.sent_to(again))
    table = world.table(again, "history")
    assert table is not None
    assert as_states(read_table(table)) == states_by_key(world.sent_to(again))
    assert audit(world.settings, again, deep=True).findings == ()
    back = kept(world, None, True, name, topic, **history)
    send(world, back, 1, 90)
    run(world, back)
    assert audit(world.settings, back, deep=True).findings == (), "its landing has filled the hole"
