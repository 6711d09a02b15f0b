"""A table that lacks rows is filled again, or accepted by its name; nothing is accepted in silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.protocol.acceptance import Lack, verify_accepted
from include.protocol.errors import TargetBehindLedger
from include.protocol.ledger_events import BatchPlanned, GenerationStarted, TopicsStarted
from include.protocol.ledger_fold import fold
from include.protocol.ranges import TopicPartition
from tests.support.batches import batch, committed

TP = TopicPartition("t", 0)
STATE = fold(
    [
        TopicsStarted(1, 0, start_offsets={TP: 0}, topic_ids={"t": "id-t"}, cluster_id="cluster"),
        *(event for n in range(3) for event in (BatchPlanned(batch(n)), committed(batch(n)))),
    ]
)
HISTORY = Lack("history", expected="all", found="less", first=1)  # the batches that end at 20 and 30


def started(offset: int, origin: str = "batch 1") -> GenerationStarted:
    return GenerationStarted(2, {TP: offset}, {"t": "id-t"}, "cluster", origin, "test", "test")


@pytest.mark.parametrize(
    ("begun", "lack", "is_filled"),
    [
        (started(10), HISTORY, True),
        (started(0), HISTORY, True),
        (started(20), HISTORY, False),
        (started(20, "earliest"), HISTORY, True),  # all that Kafka holds
        (started(0), replace(HISTORY, first=None), False),
        (started(20, "earliest"), replace(HISTORY, is_surplus=True), False),
        (replace(started(0), generation=1), HISTORY, False),
    ],
)
def test_i3_a_generation_fills_what_it_reads_again(begun: GenerationStarted, lack: Lack, is_filled: bool) -> None:
    verify_accepted("p", STATE, begun, [lack], accepted={"history"})
    if is_filled:
        verify_accepted("p", STATE, begun, [lack], accepted=())
        return
    with pytest.raises(TargetBehindLedger) as failure:
        verify_accepted("p", STATE, begun, [lack], accepted={"archive"})
    assert failure.value.where == "p, history"
    assert "`lakemark reset p --from " in failure.value.action
    assert "the same command with --accept history" in failure.value.action


def test_the_advice_reaches_back_to_the_first_batch_that_any_table_lacks() -> None:
    lacks = [HISTORY, Lack("archive", expected="all", found="less", first=2)]
    with pytest.raises(TargetBehindLedger) as failure:
        verify_accepted("p", STATE, started(30, "committed"), lacks, accepted=())
    assert "--from 1 " in failure.value.action
    assert "--accept history --accept archive" in failure.value.action
