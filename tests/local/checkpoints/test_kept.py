"""Checkpoints are listed as they are; maintenance leaves what retained ones need. Real Delta files, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from include.checkpoints.listing import Listed, checkpoints_in, listed
from include.checkpoints.restoring import Restoring
from include.checkpoints.retention import freeze_due, kept_in
from include.control.coordinator import Coordinator
from include.lake.log_cleaning import log_retention
from include.lake.merge.landing import Marker, land
from include.lake.merge.snapshot import Snapshot
from include.lake.merge.upsert import Upsert
from include.lake.stores import files_at
from include.pipeline_file import Pipeline
from include.pipeline_file.target import Checkpoints
from include.protocol.errors import TerminalError
from include.protocol.ledger_events import BatchPlanned, Event
from tests.support.batches import batch, committed, landed, source
from tests.support.readers import by_deltalake
from tests.support.tables_before import ask, begun_with, with_tables

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("_lakemark", pa.struct([("deleted", pa.bool_())]))])
BATCHES = 6
IN_KAFKA = source({("t", 0): (0, 10 * BATCHES)})


def made(folder: Path, age: timedelta = timedelta()) -> Coordinator:
    """A pipeline whose batch n has made version n + 1 of the target, all of an age, a second after each other."""
    found, began = with_tables(folder), datetime.now(UTC) - age
    target, told = found.tables.target, {"delta.enableDeletionVectors": "true"}
    files_at(target).make_folder(target)
    DeltaTable.create(str(target), SCHEMA, configuration=told)
    events: list[Event] = [begun_with(batch(0))]
    for number in range(BATCHES):
        of, at = batch(number), (began + timedelta(seconds=number)).isoformat()
        ids = range(number % 3, 40, 1 + number % 3)
        rows = pa.Table.from_pylist([{"id": n, "seq": number, "_lakemark": {"deleted": n == 39}} for n in ids], SCHEMA)
        said = replace(landed(of).metadata, positions={}).dumps()
        version = land(
            Snapshot.of(target), Upsert(rows, ("id",), ((("seq",),),), ("seq",)), Marker(of.app_id, number), said
        )
        log = DeltaTable(str(target))
        told_of = {"table_version": version, "table_id": str(log.metadata().id), "committed_at": at, "positions": {}}
        events += [BatchPlanned(of), replace(committed(of), **told_of)]
    found.ledger.append(lambda state: events)
    return found


def keeping(coordinator: Coordinator, **rule: float) -> Pipeline:
    """Its pipeline, with a rule of what is retained."""
    return coordinator.pipeline.model_copy(update={"checkpoints": Checkpoints.model_validate(rule)})


def looks(coordinator: Coordinator) -> Sequence[Listed]:
    settings, pipeline = coordinator.settings, coordinator.pipeline
    return listed(settings, pipeline, checkpoints_in(settings, pipeline))


def rows(coordinator: Coordinator) -> list[tuple[int, ...]]:
    return sorted((row["id"], row["seq"]) for row in by_deltalake(str(coordinator.tables.target)))


def cut_the_log(coordinator: Coordinator) -> None:
    """As log clean-up does it."""
    DeltaTable(str(coordinator.tables.target)).create_checkpoint()
    for version in range(BATCHES):
        (Path(str(coordinator.tables.target)) / f"_delta_log/{version:020}.json").unlink()


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
