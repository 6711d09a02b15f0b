"""Checkpoints are listed as they are; maintenance leaves what retained ones need. Real Delta files, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from include.checkpoints.listing import Listed, checkpoints_in, listed
from include.checkpoints.restoring import Restoring
from include.checkpoints.retention import freeze_due, kept_in
from include.control.coordinator import Coordinator
from include.lake.log_cleaning import log_retention
from include.lake.stores import files_at
from include.pipeline_file import Pipeline
from include.pipeline_file.target import Checkpoints
from include.protocol.errors import TerminalError
from tests.support.six_batches import BATCHES, IN_KAFKA, cut_the_log, made, rows
from tests.support.tables_before import ask


def keeping(coordinator: Coordinator, **rule: float) -> Pipeline:
    """Its pipeline, with a rule of what is retained."""
    return coordinator.pipeline.model_copy(update={"checkpoints": Checkpoints.model_validate(rule)})


def looks(coordinator: Coordinator) -> Sequence[Listed]:
    settings, pipeline = coordinator.settings, coordinator.pipeline
    return listed(settings, pipeline, checkpoints_in(settings, pipeline))


def test_a_checkpoint_stays_whole_for_as_long_as_vacuum_leaves_its_files_there(tmp_path: Path) -> None:
    found = looks(made(tmp_path))
    assert [one.checkpoint.name for one in found] == [f"1/{n}" for n in range(BATCHES)]
    assert [one.lost for one in found] == [None] * BATCHES
    assert found[-1].until is None
    files = [set(one.tables[-1].past.names) for one in found]
    began = [datetime.fromisoformat(one.checkpoint.committed_at or "") for one in found]
    for place, one in enumerate(found):
        if one.until is None:
            assert files[place] <= files[-1]
            continue
        last = began.index(datetime.fromisoformat(one.until) - timedelta(hours=168))
        assert place <= last
        assert files[place] <= files[last]
        assert not files[place] <= files[last + 1]
    assert len([one for one in found if one.until]) > 1


def test_what_retained_checkpoints_need_is_kept_and_nothing_else(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    needs = [set(one.tables[-1].past.names) for one in looks(coordinator)]
    assert kept_in(coordinator.settings, coordinator.pipeline) == {}, "no rule, nothing is kept"
    for count in (1, 2, BATCHES, 99):
        kept = kept_in(coordinator.settings, keeping(coordinator, retain=count))["target"]
        assert set(kept.names) == set.union(*needs[-count:])
        assert set(kept.older) == set.union(*needs[-count:]) - needs[-1]
        assert kept.versions == min(count, BATCHES)
        there = {file.name: file.size for file in files_at(coordinator.tables.target).list(coordinator.tables.target)}
        assert all(size <= there[name] for name, size in kept.names.items())
    assert kept_in(coordinator.settings, keeping(coordinator, retain_hours=1))["target"].versions == BATCHES


def test_log_clean_up_does_not_end_a_retained_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = made(tmp_path, age=timedelta(days=16))  # a log is kept for thirty days
    was = rows(coordinator)
    assert freeze_due(coordinator.settings, keeping(coordinator, retain=3)) == 3
    assert freeze_due(coordinator.settings, keeping(coordinator, retain=3)) == 0
    cut_the_log(coordinator)
    lost = [one.lost for one in looks(coordinator)]
    assert lost == [*["target: log clean-up has removed its log"] * (BATCHES - 3), None, None, None]
    ask(monkeypatch, IN_KAFKA)
    known = checkpoints_in(coordinator.settings, coordinator.pipeline)
    with pytest.raises(TerminalError, match="log clean-up has removed it"):
        Restoring(coordinator, known[2], "test", "test").restore()
    assert rows(coordinator) == was
    started = Restoring(coordinator, known[3], "test", "test").restore()
    assert (started.origin, started.start_offsets) == ("checkpoint 1/3", known[3].next_offsets)
    assert {row[1] for row in rows(coordinator)} == {3}, "batch 3 changes every row"
    assert freeze_due(coordinator.settings, keeping(coordinator, retain=1)) == 0
    names = {
        file.name.split("/")[1]
        for file in files_at(coordinator.tables.checkpoints).list(coordinator.tables.checkpoints)
    }
    assert names == {str(BATCHES)}, "what is no longer retained is no longer frozen"


def test_young_checkpoints_need_no_frozen_log(tmp_path: Path) -> None:
    coordinator = made(tmp_path)
    assert freeze_due(coordinator.settings, keeping(coordinator, retain=3)) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, timedelta(days=30)),
        ("interval 10 minutes", timedelta(minutes=10)),
        ("INTERVAL 1 WEEK", timedelta(weeks=1)),
        ("interval 2 days", timedelta(days=2)),
        ("2 months", timedelta()),
        ("nothing", timedelta()),
    ],
)
def test_how_long_a_log_is_kept_is_said_by_the_table(text: str | None, found: timedelta) -> None:
    assert log_retention({} if text is None else {"delta.logRetentionDuration": text}) == found
