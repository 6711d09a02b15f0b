"""Where tables stand that a batch does not write. No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from spark_jobs.attempt.work import Work
from tests.support.batches import batch
from tests.support.hand_made import coordinator_of

AT = Position(1, 0, 0, "d", version=1, identity="t")
OUT = replace(AT, left_out=True)


@pytest.mark.parametrize(
    ("was", "reads_archive", "is_repair", "stands"),
    [
        ({"archive": AT, "history": AT}, False, False, {"archive": OUT, "history": OUT}),
        ({"archive": AT, "history": AT}, True, False, {"archive": AT, "history": OUT}),
        ({"archive": OUT, "history": OUT}, True, False, {"archive": OUT, "history": OUT}),  # it still has the hole
        ({"archive": AT, "history": AT}, False, True, {"archive": AT, "history": AT}),  # there is nothing to lack
        ({"archive": OUT, "history": OUT}, False, True, {"archive": OUT, "history": OUT}),
    ],
)
def test_i3_a_table_that_the_file_leaves_out_lacks_the_batch(
    was: dict[str, Position], reads_archive: bool, is_repair: bool, stands: dict[str, Position]
) -> None:
    of = replace(batch(1), ranges=(), mends=("quarantine",)) if is_repair else batch(1)
    table = LakeUri("/lake/t")
    archive = table if reads_archive else None
    pipeline = Pipeline.model_construct(name="p")
    work = Work(pipeline, of, table, state=LedgerState(), next_offsets={}, stands_on=was, archive=archive)
    assert work.positions_without_it == stands


def test_i3_a_chunk_leaves_out_what_live_batches_have_written_and_the_file_does_not_name(
    tmp_path: Path,
) -> None:
    """An archive holds the chunk's records already, and the quarantine is always there."""
    was = {"archive": AT, "history": AT, "lake://old": OUT, "quarantine": AT}
    pipeline, table = coordinator_of(tmp_path).pipeline, LakeUri("/lake/t")
    work = Work(pipeline, batch(0, generation=-1), table, state=LedgerState(), next_offsets={}, stands_on=was)
    assert work.chunk_leaves_out == ("history", "lake://old"), "a chunk may read what lies before the batch"
    told = replace(work, state=LedgerState(left_out=frozenset({"history"})))
    assert told.chunk_leaves_out == ("lake://old",)
    assert replace(work, makes_new_table=True).chunk_leaves_out == (), "it leaves all such tables alone"
    assert replace(work, batch=batch(0)).chunk_leaves_out == (), "positions tell of a batch"
