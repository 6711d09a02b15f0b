"""What settle does when tasks of a run were cleared alone: its plan and its merge are about different batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.control.generation_change import GenerationChange
from include.protocol.errors import RetryableError
from include.protocol.generations import restart
from tests.support.hand_made import make_target
from tests.support.tables_before import with_tables


@pytest.mark.usefixtures("_kafka")
def test_a_plan_that_ran_again_alone_leaves_its_batch_to_the_next_run(tmp_path: Path) -> None:
    coordinator = with_tables(tmp_path)
    run = coordinator.plan_run()
    assert run is not None
    assert coordinator.settle_run(run, ran=set()) == []  # the run's merge knows nothing of it
    assert coordinator.settle_run(None, ran=set()) == []
    with pytest.raises(RetryableError, match="the batch has not landed"):
        coordinator.settle_run(run, ran={run.first})  # it says that it has run it
    assert coordinator.plan_run() == run  # and the next run takes it


@pytest.mark.usefixtures("_kafka")
def test_a_run_of_a_generation_that_has_ended_has_nothing_to_settle(tmp_path: Path) -> None:
    coordinator = with_tables(tmp_path)
    run = coordinator.plan_run()
    assert run is not None
    assert not coordinator.has_ended(run)
    change = GenerationChange(coordinator, lambda: make_target(coordinator))
    change.begin(
        lambda state, source: restart(
            "p", state, source, "committed", kafka_order_decides=False, reason="why", started_by="me"
        )
    )
    assert coordinator.has_ended(run)
    for ran in (set(), {run.first}):
        assert coordinator.settle_run(run, ran) == []
