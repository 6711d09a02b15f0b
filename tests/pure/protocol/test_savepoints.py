"""Savepoints as data, and the generations that begin with their rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from include.protocol.checkpoints import checkpoints_of, standing_at
from include.protocol.errors import TerminalError
from include.protocol.first_offsets import FirstOffsets
from include.protocol.ledger_events import BatchPlanned, Event, GenerationStarted
from include.protocol.ledger_fold import fold
from include.protocol.participants import NOWHERE, Position
from include.protocol.planning import PartitionExtent
from include.protocol.ranges import TopicPartition
from include.protocol.restoring import cut_over
from include.protocol.rows_gone import versions_gone
from include.protocol.savepoints import Begun, SavedTable, Savepoint, folder_of, verify_name, verify_same
from tests.support.batches import batch, committed, source

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = [batch(n, ("t", 0, 10 * n, 10 * n + 10)) for n in range(3)]
EVENTS: list[Event] = [
    event
    for of in BATCHES
    for event in (BatchPlanned(of), replace(committed(of), table_version=of.batch_id + 1, table_id="x", positions={}))
]
CHECKPOINTS = checkpoints_of("p", EVENTS)
BEGUN = Begun("p", "s", "why", "me", "2026-11-27T00:00:00+00:00", False, CHECKPOINTS[1], "0.1.0")
TABLES = {
    "target": SavedTable(CHECKPOINTS[1].point, "target", 2, 10, 3, "{}", "a", "b"),
    "history": SavedTable(NOWHERE, None),
}
SAVEPOINT = Savepoint(BEGUN, TABLES, {"p.yaml": "c"})
HELD = source({("t", 0): (0, 40)})


def began(origin: str, **told: object) -> GenerationStarted:
    given = {"start_offsets": {T0: 20}, "topic_ids": {"t": "id-t"}, "cluster_id": "cluster", "table_id": "y"}
    return GenerationStarted(2, origin=origin, reason="why", started_by="me", positions={}, **{**given, **told})  # type: ignore[arg-type]


def test_a_manifest_says_what_was_made_and_notices_every_change() -> None:
    data = SAVEPOINT.to_json()
    assert Savepoint.from_json(data) == SAVEPOINT
    assert SAVEPOINT.bytes == 10
    for change in ({"reason": "other"}, {"texts": {}}, {"digest": "0"}, {"more": 1}):
        with pytest.raises((ValueError, TypeError)):
            Savepoint.from_json({**data, **change})


def test_names_of_origins() -> None:
    assert BEGUN.origin == "savepoint s 1/1"
    started = began(BEGUN.origin)
    assert (started.is_restore, started.savepoint, started.restored) == (True, "s", "1/1")
    assert (started.is_clone, started.is_cut_over, started.replaces_rows) == (False, False, False)
    cloned = began("clone of other/s 3/7")
    assert (cloned.is_restore, cloned.is_clone, cloned.savepoint, cloned.restored) == (True, True, None, "3/7")
    cut = began("cut over to q q-2026 1/1")
    assert (cut.is_restore, cut.is_cut_over, cut.replaces_rows, cut.savepoint) == (True, True, True, "q-2026")
    assert began("checkpoint 1/1").savepoint is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "-a", "ä", "a" * 64, "a\n"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(TerminalError, match="no name for a savepoint"):
        verify_name("p", name)


def test_no_two_tables_have_one_folder() -> None:
    assert [folder_of(name) for name in ("target", "silver/odd", "silver_odd")] == [
        "target",
        "silver~odd",
        "silver_odd",
    ]


def test_what_was_begun_is_ended_and_nothing_else() -> None:
    verify_same(BEGUN, is_copy=False, is_deep=False, checkpoint=None)
    verify_same(BEGUN, is_copy=False, is_deep=False, checkpoint="1/1")
    for told in ((True, False, None), (False, True, None), (False, False, "1/2")):
        with pytest.raises(TerminalError, match="another savepoint of this name was begun"):
            verify_same(BEGUN, *told)


def test_what_an_older_lakemark_did_not_keep_changes_no_digest() -> None:
    """Else its manifests would count as damaged."""
    assert not {"is_deep", "first"} & BEGUN.to_json().keys()
    later = replace(BEGUN, is_deep=True, first=FirstOffsets({TopicPartition("t", 0): 7}, topic_ids={"t": "id-t"}))
    assert Begun.from_json(json.loads(json.dumps(later.to_json()))) == later


def test_where_the_tables_stand_after_a_restore_a_clone_and_a_cut_over() -> None:
    at = [(f"2026-11-27T00:0{n}:00", event) for n, event in enumerate(EVENTS)]

    def standing(*more: Event) -> str | None:
        found = standing_at("p", [*at, *((f"2026-11-27T00:1{n}:00", event) for n, event in enumerate(more))], None)
        return found and found.name

    assert standing() == "1/2"
    assert standing(began("savepoint s 1/1", restored_to=2)) == "1/1"
    assert standing(began("cut over to q q-2026 1/1")) is None, "the other pipeline's batch is none of its own"
    assert standing(began("backfill 1")) is None
    [first] = checkpoints_of("q", [began("clone of p/s 1/1", restored_to=0)])
    assert (first.name, first.point.version, first.point.identity, first.next_offsets) == ("1/1", 0, "y", {T0: 20})


def test_a_cut_over_takes_what_batches_had_left() -> None:
    began_at = [*EVENTS, began("cut over to q q-2026 1/1", target_version=5)]
    assert versions_gone(began_at) == [(-1, 5)]


def test_both_must_have_read_equally_far() -> None:
    state = fold(EVENTS)
    to = replace(CHECKPOINTS[2], positions={"history": Position(1, 2, 0, version=7, identity="h")})

    def decided(checkpoint=to) -> GenerationStarted:
        return cut_over(state, checkpoint, HELD, origin="cut over to q q 1/2", reason="why", started_by="me")

    started = decided()
    assert (started.generation, started.start_offsets, started.positions) == (2, {T0: 30}, to.positions)
    assert started.restored_to is None
    for offsets in ({T0: 20}, {T0: 31}, {T0: 30, T1: 0}, {}):
        with pytest.raises(TerminalError, match="equally far"):
            decided(replace(to, next_offsets=offsets))


def test_a_source_up_to_given_offsets() -> None:
    held = source({("t", 0): (5, 40), ("t", 1): (0, 9)})
    capped = held.up_to({T0: 20}).partitions
    assert capped == {T0: PartitionExtent(5, 20), T1: PartitionExtent(0, 0)}
    assert held.up_to({T0: 99, T1: 9}).partitions == held.partitions
