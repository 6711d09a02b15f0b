"""With `merge_every`, what is merged again comes from the archive: that must hold it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.control.coordinator import Coordinator
from include.protocol.errors import TargetBehindLedger, TerminalError
from include.protocol.ranges import TopicPartition
from tests.support.tables_before import reset, with_batches, with_tables

TP = TopicPartition("t", 0)


@pytest.fixture
def p(tmp_path: Path) -> Coordinator:
    """Three batches of ten records were merged from Kafka; now the file has `merge_every`, and the landing has not
    run."""
    with_batches(tmp_path, 3)
    return with_tables(tmp_path, merge_every=2)


def archive(p: Coordinator, first: int) -> None:
    rows = [{"topic": "t", "topic_id": "id-t", "partition": 0, "offset": n} for n in range(first, 30)]
    write_deltalake(str(p.tables.archive), pa.Table.from_pylist(rows), mode="overwrite")


def test_i7_a_reset_to_what_the_archive_lacks_is_refused(p: Coordinator) -> None:
    archive(p, 11)
    with pytest.raises(TerminalError, match="lacks records that were merged before") as failure:
        reset(p, 1)
    assert "`lakemark reset p__landing --from earliest --reason ...`" in failure.value.action
    assert p.ledger.state().generation == 1, "nothing was changed"
    assert reset(p, "earliest").start_offsets == {TP: 20}, "behind what it lacks"


def test_i7_what_was_lost_since_a_reset_is_not_merged_as_nothing(p: Coordinator) -> None:
    archive(p, 10)
    assert reset(p, 1).start_offsets == {TP: 10}
    shutil.rmtree(str(p.tables.archive))
    with pytest.raises(TerminalError, match="lacks records that were merged before"):
        p.plan()


def test_i3_a_table_that_lacks_what_the_archive_does_not_hold_is_filled_by_its_landing_first(p: Coordinator) -> None:
    archive(p, 10)
    shutil.rmtree(str(p.tables.target))
    with pytest.raises(TargetBehindLedger, match=re.escape("the archive lacks t-0[0, 10)")) as failure:
        reset(p, "earliest")
    first, then, accept = re.findall(r"`(lakemark [^`]*)`", failure.value.action)
    assert first == "lakemark reset p__landing --from earliest --reason ..."
    assert then == "lakemark run p__landing --until-caught-up"
    assert accept == "lakemark reset p --from earliest --accept target --reason ..."
    archive(p, 0)
    assert reset(p, "earliest").start_offsets == {TP: 0}
