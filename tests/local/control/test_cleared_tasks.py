"""What settle does when tasks of a run were cleared alone: its plan and its merge are about different batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.control.backfills import Backfills
from include.control.generation_change import GenerationChange
from include.protocol.backfill import Backfill
from include.protocol.errors import RetryableError
from include.protocol.generations import restart
from include.protocol.ledger_events import BackfillEnded, BackfillOutcome, BackfillPlanned
from include.protocol.ranges import OffsetRange
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


@pytest.mark.usefixtures("_kafka")
@pytest.mark.parametrize("outcome", ["swapped", "cancelled"])
def test_a_backfill_that_has_ended_has_nothing_to_finish(tmp_path: Path, outcome: BackfillOutcome) -> None:
    """Its new table may be gone, and with it the commits of its chunks."""
    coordinator = with_tables(tmp_path)
    planned = Backfill(
        "p",
        number=1,
        request_id="r",
        chunks=((OffsetRange("t", 0, 0, 10),),),
        topic_ids={"t": "id-t"},
        cluster_id="cluster",
        into="new",
        next_offsets={},
        reason="",
        requested_by="",
    )
    coordinator.ledger.append(lambda state: [BackfillPlanned(planned)])
    assert not coordinator.backfill_has_ended(1)
    with pytest.raises(RetryableError, match="have not landed"):
        Backfills(coordinator).finish(planned, never, "me")
    coordinator.ledger.append(lambda state: [BackfillEnded(1, outcome, "")])
    assert coordinator.backfill_has_ended(1)
    assert Backfills(coordinator).finish(planned, never, "me") == []


def never() -> None:
    raise AssertionError("nothing is promoted")
