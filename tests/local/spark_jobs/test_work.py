"""Where tables stand that a batch does not write. No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.ledger_state import LedgerState
from include.protocol.participants import Position
from spark_jobs.attempt.work import Work
from tests.support.batches import batch

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
