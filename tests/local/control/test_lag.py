"""What a watcher of a pipeline sees at each look. No Kafka: what a look at it finds is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from include.control.coordinator import Coordinator
from include.control.lag import Lookout
from include.participants import heads
from include.protocol.ledger_events import AttemptEnded, AttemptStarted, BatchPlanned
from include.sources.shared_brokers import SharedBrokers
from tests.support.batches import batch, committed, source
from tests.support.hand_made import coordinator_of
from tests.support.tables_before import begun_with, folder_before, land_before, with_one_batch


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """Nothing waits in Kafka."""
    monkeypatch.setattr(SharedBrokers, "extent", lambda self, asked: source({("t", 0): (0, 10)}))
    return with_one_batch(tmp_path)


def test_i11_a_repair_starts_a_run_also_while_the_source_is_idle(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher has looked before, and the ledger does not change."""
    monkeypatch.setattr("include.control.lag._QUIET_SECONDS", 0)
    lookout = Lookout(coordinator.settings, coordinator.pipeline)
    seen = lookout.look()
    assert (seen.records, seen.urgent) == (0, False)
    land_before(folder_before(coordinator, "history"), 2, batch(0), revision=1)
    seen = lookout.look()
    assert (seen.records, seen.urgent) == (0, True)


def test_i11_a_repair_that_is_planned_and_stuck_starts_a_run_too(coordinator: Coordinator) -> None:
    repair = replace(batch(1), ranges=(), mends=("history",))
    mending = BatchPlanned(repair, coordinator.ledger.state().positions)
    coordinator.ledger.append(lambda state: [mending])
    assert Lookout(coordinator.settings, coordinator.pipeline).look().urgent


def test_a_table_that_lacks_rows_starts_the_run_that_says_so(coordinator: Coordinator) -> None:
    for file in (folder_before(coordinator, "history") / "_delta_log").glob("*"):
        file.unlink()
    seen = Lookout(coordinator.settings, coordinator.pipeline).look()
    assert seen.urgent


def test_a_batch_that_waits_for_a_person_is_known_as_such(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pipeline is not asked to run as often as one that is only paused."""
    monkeypatch.setattr(SharedBrokers, "extent", lambda self, asked: source({("t", 0): (0, 20)}))
    lookout, begun = Lookout(coordinator.settings, coordinator.pipeline), AttemptStarted(1, 1, "a", "host", "test")
    coordinator.ledger.append(lambda state: [BatchPlanned(batch(1), state.positions), begun])
    assert lookout.look().problem is None
    for outcome, problem in (("TerminalError", "act"), ("RetryableError", None)):
        attempt = replace(begun, attempt_id=outcome)
        ended = AttemptEnded(1, 1, outcome, outcome, problem="act")
        coordinator.ledger.append(lambda state, events=(attempt, ended): events)
        assert lookout.look().problem == problem


def test_where_a_landing_reads_kafka_its_progress_counts_and_so_does_what_waits_to_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {("t", 0): (0, 12)}
    monkeypatch.setattr(SharedBrokers, "extent", lambda self, asked: source(held))
    of_both = coordinator_of(tmp_path, archive="lake://bronze/p", merge_every=2)
    lookout, seen = Lookout(of_both.settings, of_both.pipeline), []
    for half in of_both.pipeline.halves:
        one = replace(batch(0), pipeline=half.name)
        events = [begun_with(one), BatchPlanned(one), committed(one)]
        Coordinator(of_both.settings, half).ledger.append(lambda state, events=events: events)
        seen.append(lookout.look())
    assert [(look.records, look.unmerged) for look in seen] == [(2, 10), (2, 0)]
    assert seen[0].progress != seen[1].progress
    held["t", 0] = (0, 10)
    assert (lookout.look().records, lookout.look().unmerged) == (0, 0)


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_tables_are_not_opened_again_while_no_log_changes(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, is_rolled_back: bool
) -> None:
    """A trigger looks every second, also where a person is waited for."""
    if is_rolled_back:
        DeltaTable(folder_before(coordinator, "history")).restore(0)
    monkeypatch.setattr("include.control.lag._COARSE_NS", 0)
    lookout, opened = Lookout(coordinator.settings, coordinator.pipeline), []
    logs_before = heads.logs_before
    monkeypatch.setattr(heads, "logs_before", lambda *args: opened.append(args) or logs_before(*args))
    assert [lookout.look().urgent for _ in range(3)] == [is_rolled_back] * 3
    assert len(opened) == 1


def test_while_nothing_happens_logs_are_looked_at_every_few_seconds_only(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred watchers that look every second would take a tenth of a core."""
    now, held = [0.0], {("t", 0): (0, 10)}
    monkeypatch.setattr("include.control.lag.time.monotonic", lambda: now[0])
    monkeypatch.setattr(SharedBrokers, "extent", lambda self, asked: source(held))
    lookout, looked = Lookout(coordinator.settings, coordinator.pipeline), []
    look_at_logs = lookout._look_at_logs
    monkeypatch.setattr(lookout, "_look_at_logs", lambda found: looked.append(now[0]) or look_at_logs(found))
    for second in range(12):
        now[0] = second
        assert lookout.look().records == 0
    assert looked == [0, 10]
    held["t", 0] = (0, 11)  # something new
    assert [lookout.look().records for _ in range(2)] == [1, 1]
    assert looked == [0, 10, 11, 11]
