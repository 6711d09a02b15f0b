"""What a plan does after the ledger and the target were lost together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.audit.auditor import audit
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.protocol.errors import OffsetsExpired
from include.protocol.generations import skip
from include.protocol.planning import NewBatch
from include.protocol.ranges import OffsetRange
from tests.support.batches import batch, source
from tests.support.hand_made import make_target
from tests.support.tables_before import ask, folder_before, land_before, make_before, with_tables


def planned_without(coordinator: Coordinator, given_up: OffsetRange) -> tuple[OffsetRange, ...]:
    """The ranges of the next batch, after `lakemark ledger skip`."""
    change = GenerationChange(coordinator, lambda: make_target(coordinator))
    change.begin(lambda state, source: skip("p", state, source, [given_up], reason="test", started_by="test"))
    planned = coordinator.plan()
    assert isinstance(planned, NewBatch)
    return planned.batch.ranges


def test_i7_after_a_loss_topics_are_read_whole_also_if_the_file_says_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where reading once began, nobody knows any more."""
    ask(monkeypatch, source({("t", 0): (0, 100)}))
    read = {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, seq BIGINT", "start": "latest"}
    coordinator = with_tables(tmp_path, source=read)
    land_before(make_before(coordinator, "history"), 1, batch(0))
    coordinator.plan()
    state = coordinator.ledger.state()
    assert (state.generation, state.pending.batch.ranges[0].start_offset if state.pending else None) == (2, 0)


def test_i7_after_a_loss_what_kafka_has_dropped_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables beside the target know that it was read once."""
    ask(monkeypatch, source({("t", 0): (5, 100)}))
    coordinator = with_tables(tmp_path)
    land_before(make_before(coordinator, "history"), 1, batch(0))
    with pytest.raises(OffsetsExpired, match="ledger skip p --range t-0:0-5"):
        coordinator.plan()
    assert planned_without(coordinator, OffsetRange("t", 0, 0, 5)) == (OffsetRange("t", 0, 5, 100),)
    assert "t-0[0, 5) was given up" in " ".join(audit(coordinator.settings, coordinator.pipeline).on_record)


def test_i7_giving_up_what_is_gone_passes_no_other_topic_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says `latest`, and no table knows of the other topic."""
    ask(monkeypatch, source({("t", 0): (5, 100), ("u", 0): (0, 50)}))
    read = {"bootstrap_servers": "k:1", "topics": ["t", "u"], "schema": "id BIGINT, seq BIGINT", "start": "latest"}
    coordinator = with_tables(tmp_path, source=read)
    land_before(make_before(coordinator, "history"), 1, batch(0))
    with pytest.raises(OffsetsExpired):
        coordinator.plan()
    whole = OffsetRange("u", 0, 0, 50)
    assert planned_without(coordinator, OffsetRange("t", 0, 0, 5)) == (OffsetRange("t", 0, 5, 100), whole)


def test_i7_an_archives_rows_know_what_was_read_before_the_oldest_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log clean-up has removed the first batches' commits."""
    ask(monkeypatch, source({("t", 0): (5, 100)}))
    coordinator = with_tables(tmp_path)
    land_before(make_before(coordinator, "history"), 1, batch(1))
    rows = {"topic": ["t"], "topic_id": ["id-t"], "partition": [0], "offset": [3], "generation": [1], "batch_id": [0]}
    write_deltalake(folder_before(coordinator, "archive"), pa.table(rows))
    with pytest.raises(OffsetsExpired, match="ledger skip p --range t-0:3-5"):
        coordinator.plan()
