"""A plan, while others end the generation that it has read: no Spark, no Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.control import coordinator as planning
from include.control.coordinator import Coordinator
from include.control.generation_change import GenerationChange
from include.lake.delta_tables import commit_markers, open_table
from include.protocol.batch import FENCE, BatchKey, app_id
from include.protocol.errors import FencedGeneration, LedgerBehindTarget
from include.protocol.planning import NewBatch
from tests.support.batches import source
from tests.support.tables_before import ask, reset, uri_before, with_one_batch

KAFKA = source({("t", 0): (0, 100)})


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    ask(monkeypatch, KAFKA)
    return with_one_batch(tmp_path)


def while_it_asks_kafka(patch: pytest.MonkeyPatch, happens) -> None:
    """The first look at Kafka lies between the plan's look at the ledger and its look at the tables."""
    looks = [happens]

    def look(declared):
        while looks:
            looks.pop()()
        return KAFKA

    patch.setattr(planning, "source_extent", look)


@pytest.mark.parametrize("method", ["plan", "preview"])
def test_i5_a_plan_that_read_the_ledger_before_a_reset_decides_again(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    while_it_asks_kafka(monkeypatch, lambda: reset(coordinator))
    plan = getattr(coordinator, method)()
    assert isinstance(plan, NewBatch)
    assert (plan.batch.key, plan.batch.ranges[0].start_offset) == (BatchKey(2, 0), 10)
    assert [record.batch for record in coordinator.ledger.state().batches] == [plan.batch] * (method == "plan")


def test_i5_a_plan_during_a_reset_says_that_one_is_under_way(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise ConnectionError

    def half_a_reset() -> None:
        with monkeypatch.context() as patch, pytest.raises(ConnectionError):
            patch.setattr(GenerationChange, "_record", killed)
            reset(coordinator)

    while_it_asks_kafka(monkeypatch, half_a_reset)
    with pytest.raises(FencedGeneration, match="completes it as it was decided"):
        coordinator.plan()


def test_i10_a_fence_of_a_table_alone_is_a_lost_ledger(coordinator: Coordinator) -> None:
    history = open_table(uri_before(coordinator, "history"))
    assert history is not None
    assert commit_markers(history, {app_id("p", 1): FENCE}, "{}")
    with pytest.raises(LedgerBehindTarget, match="says that the ledger's generation has ended"):
        coordinator.plan()
