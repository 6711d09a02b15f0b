"""Storage on its bad days: full, read-only, damaged, maintained, and written by others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from include.audit.auditor import audit
from include.lake.delta_tables import open_table
from include.lake.ledger import Ledger
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from include.protocol.errors import (
    LakemarkError,
    OutcomeUnknownError,
    RetryableError,
    TableDamaged,
    TargetBehindLedger,
    TerminalError,
)
from include.protocol.ledger_events import BatchPlanned
from tests.support.batches import batch
from tests.support.commits import at_the_point
from tests.support.damage import cut, emptied
from tests.support.mounts import mounted
from tests.support.world import World, as_dict, changes, newest_by_key


def one_batch(world: World, **sections: object) -> tuple[str, Pipeline]:
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, **sections)
    world.produce(topic, changes(range(30), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(20, 50), 2), 1)
    return topic, pipeline


def assert_right(world: World, pipeline: Pipeline) -> None:
    world.drain(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.on_local_lake
def test_a_disk_that_is_full_in_mid_write_loses_nothing(world: World, tmp_path: Path) -> None:
    """A file system of 1 MiB under the target: the data files do not fit."""
    topic, pipeline = one_batch(world)
    target = str(world.coordinator(pipeline).tables.target)
    kept = tmp_path / "kept"
    shutil.copytree(target, kept)
    world.produce(topic, [{"id": n, "seq": 3, "name": os.urandom(4000).hex(), "op": "u"} for n in range(400)], 1)
    with mounted(target, "-t", "tmpfs", "-o", "size=1m", "none"):
        shutil.copytree(kept, target, dirs_exist_ok=True)
        before = open_table(LakeUri(target)).version()
        planned = world.coordinator(pipeline).plan().batch
        with pytest.raises(OutcomeUnknownError, match="No space left on device") as failure:
            world.attempt(pipeline, planned.batch_id)
        assert "free some space" in failure.value.action
        assert open_table(LakeUri(target)).version() == before
    assert_right(world, pipeline)


@pytest.mark.on_local_lake
def test_a_ledger_on_a_full_disk_is_an_error_that_can_be_retried(world: World) -> None:
    _, pipeline = one_batch(world)
    ledger = world.coordinator(pipeline).ledger.uri
    with (
        mounted(str(ledger), "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "none"),
        pytest.raises(RetryableError) as failure,
    ):
        Ledger(ledger).append(lambda state: [BatchPlanned(batch(0))])
    assert "the disk has space left" in failure.value.action
    assert_right(world, pipeline)


@pytest.mark.on_local_lake
def test_a_target_that_is_read_only_waits_for_a_person(world: World) -> None:
    _, pipeline = one_batch(world)
    target = str(world.coordinator(pipeline).tables.target)
    world.coordinator(pipeline).plan()
    with (
        mounted(target, "--bind", "-o", "ro", target),
        pytest.raises(TerminalError, match="mount the file system for writing"),
    ):
        world.attempt(pipeline, 1)
    assert_right(world, pipeline)


@pytest.mark.on_local_lake
def test_a_damaged_target_stops_the_pipeline_with_a_word(world: World) -> None:
    topic, pipeline = one_batch(world)
    world.drain(pipeline)
    world.produce(topic, changes(range(5), 3), 1)
    log = sorted((world.on_disk(world.coordinator(pipeline).tables.target) / "_delta_log").glob("*.json"))
    good = log[-1].read_bytes()
    for damage in (cut, emptied):
        damage(log)
        with pytest.raises(TableDamaged):
            world.coordinator(pipeline).plan()
        [finding] = audit(world.settings, pipeline).findings
        assert "a table cannot be read" in finding.what
    log[-1].unlink()  # as if the last batch had never been: Delta's checksum file or the ledger knows better
    with pytest.raises((TableDamaged, TargetBehindLedger)):
        world.coordinator(pipeline).plan()
    log[-1].write_bytes(good)
    assert_right(world, pipeline)


def test_a_missing_data_file_stops_the_attempt_with_a_word(world: World) -> None:
    _, pipeline = one_batch(world)
    target = world.on_disk(world.coordinator(pipeline).tables.target)
    [*_, victim] = sorted(target.glob("*.parquet"))
    aside = victim.rename(target.parent / victim.name)
    world.coordinator(pipeline).plan()
    with pytest.raises(TableDamaged, match=victim.name):
        world.attempt(pipeline, 1)
    aside.rename(victim)
    assert_right(world, pipeline)


@pytest.mark.parametrize(
    "statement", ["OPTIMIZE delta.`{}` ", pytest.param("VACUUM delta.`{}`", marks=pytest.mark.slow)]
)
def test_maintenance_at_the_same_time_as_a_merge(world: World, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Either side may lose the conflict; no row is lost. The attempt can be retried."""
    topic, pipeline = one_batch(world)
    world.drain(pipeline)
    world.produce(topic, changes(range(40), 3), 1)
    world.coordinator(pipeline).plan()
    target = str(world.coordinator(pipeline).tables.target)

    def maintained_meanwhile(committed: Callable[[], None]) -> None:
        def maintain() -> None:
            with world.session() as spark:
                try:
                    spark.sql(statement.format(target)).collect()
                except Exception as error:
                    assert "oncurrent" in str(error) or "CONCURRENT" in str(error), error

        with ThreadPoolExecutor(1) as pool:
            maintenance = pool.submit(maintain)
            try:
                committed()
            finally:
                maintenance.result()

    with monkeypatch.context() as patched:
        at_the_point(patched, maintained_meanwhile)
        try:
            world.attempt(pipeline, 2)
        except LakemarkError as error:
            assert isinstance(error, RetryableError), error
    assert_right(world, pipeline)


@pytest.mark.slow
def test_a_foreign_writer_blocks_no_change_and_is_found(world: World) -> None:
    """Rows without lineage are older than any change; rows that others changed keep their order."""
    topic, pipeline = one_batch(world)
    world.drain(pipeline)
    target = str(world.coordinator(pipeline).tables.target)
    with world.session() as spark:
        spark.sql(f"INSERT INTO delta.`{target}` (id, seq, name, op) VALUES (70, 9, 'foreign', 'u')")
        spark.sql(f"UPDATE delta.`{target}` SET name = 'edited' WHERE id = 3")
    report = audit(world.settings, pipeline, deep=True)
    said = " | ".join(map(str, report.findings))
    assert "another writer changed the table's rows: WRITE" in said
    assert "another writer changed the table's rows: UPDATE" in said
    assert "1 rows were written by another writer" in said
    assert "1 rows have other values than their records" in said
    world.produce(topic, changes(range(70, 71), 1) + changes(range(3, 4), 5), 1)
    world.run_batch(pipeline)
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert world.lakemark("reset", pipeline.name, "--reason", "looked at it").returncode == 0
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert "UPDATE by" in " ".join(report.on_record)
