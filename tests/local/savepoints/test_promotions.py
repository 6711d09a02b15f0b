"""Cut overs, killed and disturbed at every point, of real Delta files: no Spark. A stand-in says what Kafka holds."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from include.checkpoints.listing import checkpoints_in, listed
from include.checkpoints.reading import Cut, query_at
from include.checkpoints.retention import freeze_due
from include.checkpoints.shelf import on_shelf
from include.control import turns
from include.control.backfill_planner import BackfillPlanner
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.lake.table_log import TableLog
from include.participants.program import verify_file_written
from include.pipeline_file.target import Checkpoints
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.ledger_events import BackfillPlanned, GenerationStarted
from include.savepoints.beginning import file_of_the_other
from include.savepoints.checking import newest_whole
from include.savepoints.promoting import Promoting
from include.sources.kafka import KafkaSource
from tests.local.savepoints.test_clones import clone_of, other, p
from tests.support.saved import saved
from tests.support.six_batches import IN_KAFKA, SCHEMA, rows
from tests.support.stopped import end, resumed, stopped
from tests.support.without_kafka import COMMAND, command

__all__ = ["p"]


@pytest.fixture
def backfills(p: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Backfills:
    """Those of the pipeline. Who was killed or stopped has had its turn a moment later."""
    monkeypatch.setattr(KafkaSource, "extent", lambda source: IN_KAFKA)
    monkeypatch.setattr(turns, "LENGTH", timedelta(seconds=0.2))
    return Backfills(p)


def cut_over(p: Coordinator, *more: str, fault: str = "") -> subprocess.CompletedProcess:
    return command("promote", "q", "--over", "p", "--reason", "a test", *more, fault=fault)


@pytest.mark.parametrize("fault", ["", "promotion.saved", "generation.part_fenced", "generation.fenced"])
def test_a_cut_over_is_ended_by_the_same_command(p: Coordinator, fault: str) -> None:
    q, was = clone_of(p), rows(p)
    if fault:
        killed = cut_over(p, fault=fault)
        assert killed.returncode == -9, killed.stderr
    done = cut_over(p)
    assert done.returncode == 0, done.stderr
    assert rows(p) == was
    [started] = p.ledger.state().generations
    assert isinstance(started, GenerationStarted)
    assert (started.is_cut_over, started.generation) == (True, 2)
    assert not q.ledger.state().turns
    kept = [one.name for one in on_shelf(p.settings, p.pipeline)]
    assert [name.partition("-q-")[0] for name in kept] == ["s", "before"], "nothing is left of a try that was killed"
    cut = Cut.at(p.settings, p.pipeline, None)
    assert (cut.checkpoint.name, cut.checkpoint.next_offsets) == ("2/start", q.ledger.state().next_offsets)
    assert [(row["id"], row["seq"]) for row in query_at([cut], "SELECT * FROM target ORDER BY id").to_pylist()] == [
        row for row in rows(p) if row[0] != 39
    ]
    again = cut_over(p)
    assert again.returncode == 0, again.stderr


def test_what_a_killed_promotion_has_brought_is_no_savepoint(p: Coordinator) -> None:
    clone_of(p)
    assert cut_over(p, fault="promotion.saved").returncode == -9
    [brought] = [one.name for one in on_shelf(p.settings, p.pipeline) if one.name.startswith("q-")]
    why = ("--reason", "a test")
    for told in (["clone", "p", brought, "--as", "r"], ["restore", "p", brought, *why], ["rehearse", "p", brought]):
        refused = command("savepoint", *told)
        assert (refused.returncode, "lakemark promote q --over p" in refused.stderr) == (1, True), refused.stderr
    assert newest_whole(p.settings, p.pipeline).startswith("before-q-")
    listed_ = command("savepoint", "list", "p").stdout
    assert "rows of q for its promotion, which did not end" in listed_
    assert command("savepoint", "create", "p", "--name", brought, "--copy").returncode == 1
    assert command("savepoint", "drop", "p", brought).returncode == 0


def test_i5_a_backfill_that_begins_beside_a_promotion_waits_and_is_seen(p: Coordinator, backfills: Backfills) -> None:
    clone_of(p)
    was = rows(p)
    env = {**os.environ, "LAKEMARK_TEST_FAULT": "promotion.saved=stop"}
    over = [*COMMAND, "promote", "q", "--over", "p", "--reason", "a test"]
    promoting = subprocess.Popen(over, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        asleep = stopped(promoting)
        backfill = backfills.plan(BackfillRequest(batches=(0, 0)), "r", "a test", "me")
        code, said = resumed(promoting, asleep)
    finally:
        end(promoting)
    assert (code, "a backfill is under way" in said) == (1, True), said
    assert rows(p) == was
    assert p.ledger.state().generations == ()
    backfills.cancel(backfill.number, "me")
    assert cut_over(p).returncode == 0


def test_i5_no_chunk_runs_between_the_fences_of_two_tables(p: Coordinator, backfills: Backfills) -> None:
    """Both decided before either wrote: the fence was faster than the word that the backfill has begun."""
    clone_of(p)
    decided = BackfillPlanner(p).planned(
        BackfillRequest(batches=(0, 0)),
        TableLog.open(p.tables.target),
        p.ledger.state(),
        request_id="r",
        reason="a test",
        requested_by="me",
    )
    assert cut_over(p, fault="generation.part_fenced").returncode == -9
    p.ledger.append(lambda state: [BackfillPlanned(decided)])
    with pytest.raises(RetryableError, match="a change of generation is under way"):
        backfills.resume(decided.number)
    assert cut_over(p).returncode == 0
    assert backfills.resume(decided.number) == decided


def test_rows_that_come_while_two_are_compared_are_not_replaced(p: Coordinator) -> None:
    clone_of(p)
    env = {**os.environ, "LAKEMARK_TEST_FAULT": "promotion.saved=stop"}
    over = [*COMMAND, "promote", "q", "--over", "p", "--reason", "a test"]
    promoting = subprocess.Popen(over, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        asleep = stopped(promoting)
        DeltaTable(str(p.tables.target)).delete("id = 3")
        was = rows(p)
        code, said = resumed(promoting, asleep)
    finally:
        end(promoting)
    assert (code, "rows have come in between" in said) == (1, True), said
    assert rows(p) == was
    assert [one.name for one in on_shelf(p.settings, p.pipeline)] == ["s"], "nothing is left of what was refused"


def test_rows_that_are_there_more_often_differ(p: Coordinator) -> None:
    q = clone_of(p)
    twice = pa.Table.from_pylist([{"id": 6, "seq": 5, "_lakemark": {"deleted": False}}], SCHEMA)
    write_deltalake(str(q.tables.target), twice, mode="append")
    refused = cut_over(p)
    assert (refused.returncode, "1 only in the other" in refused.stderr) == (1, True), refused.stderr


def test_no_batch_goes_on_by_another_file_than_was_promoted(p: Coordinator) -> None:
    clone_of(p)
    new, old = (p.settings.pipelines / f"{name}.yaml" for name in ("q", "p"))
    data = yaml.safe_load(new.read_text())
    new.write_text(yaml.safe_dump(data | {"change": data["change"] | {"delete_when": "id = 1"}}))
    before = old.read_text()
    assert cut_over(p, "--write-file", fault="promotion.changed").returncode == -9
    assert (old.read_text(), len(p.ledger.state().generations)) == (before, 1)
    assert cut_over(p).returncode == 1
    refused = command("plan", "p")
    assert refused.returncode == 1
    assert "`lakemark promote q --over p --write-file --reason ...`" in refused.stderr, refused.stderr
    ended = cut_over(p, "--write-file")
    assert ended.returncode == 0, ended.stderr
    assert other(p, "p").pipeline.change.delete_when == "id = 1"
    assert command("plan", "p").returncode == 0


@pytest.fixture
def without_its_file(p: Coordinator) -> str:
    """A promotion that was killed between the rows and the file. Returns the text of the file of before."""
    clone_of(p)
    file = p.settings.pipelines / "q.yaml"
    data = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(data | {"change": data["change"] | {"delete_when": "id = 1"}}))
    old = (p.settings.pipelines / "p.yaml").read_text()
    assert cut_over(p, "--write-file", fault="promotion.changed").returncode == -9
    return old


def test_the_way_back_leads_to_the_rows_and_the_file_of_before(p: Coordinator, without_its_file: str) -> None:
    """The same command ends the promotion that was killed, and begins no other one."""
    ended = cut_over(p, "--write-file")
    assert ended.returncode == 0, ended.stderr
    assert len(p.ledger.state().generations) == 1
    [back] = re.findall(r"`lakemark (savepoint restore p before-\S+ --write-file) --reason ...`", ended.stdout)
    done = command(*back.split(), "--reason", "a test")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"savepoint before-q-\w+ 1/5", p.ledger.state().generations[-1].origin)
    assert (p.settings.pipelines / "p.yaml").read_text() == without_its_file
    for at in ([], ["--at", "1/2"]):  # its files are again those of all of its rows
        done = command("savepoint", "create", "p", "--name", f"again{len(at)}", *at)
        assert done.returncode == 0, done.stderr


def test_no_savepoint_has_the_rows_of_one_program_and_the_file_of_another(
    p: Coordinator, without_its_file: str
) -> None:
    refused = command("savepoint", "create", "p", "--name", "x")
    assert "`lakemark promote q --over p --write-file --reason ...`" in refused.stderr, refused.stderr
    assert cut_over(p, "--write-file").returncode == 0
    assert command("savepoint", "create", "p", "--name", "x").returncode == 0
    refused = command("savepoint", "create", "p", "--name", "y", "--at", "1/2")
    assert (refused.returncode, "others came with other rows" in refused.stderr) == (1, True), refused.stderr
    assert command("checkpoint", "restore", "p", "1/2", "--reason", "a test").returncode == 0


def test_after_the_ledger_was_lost_nothing_is_advised_that_nobody_knows(p: Coordinator, without_its_file: str) -> None:
    """A rebuild knows the rules, and no longer who was to write them."""
    state = p.ledger.state()
    rebuilt = replace(state.generations[-1], origin="commit metadata")
    with pytest.raises(TerminalError) as refused:
        verify_file_written(p.settings, p.pipeline, replace(state, generations=(rebuilt,)))
    assert "None" not in str(refused.value)
    assert refused.value.action.startswith("bring the file here")


def test_a_long_name_can_be_promoted(p: Coordinator) -> None:
    name = "q" * 63
    clone_of(p, name)
    done = command("promote", name, "--over", "p", "--reason", "a test")
    assert done.returncode == 0, done.stderr


def test_log_clean_up_does_not_end_the_start_of_a_generation_that_is_retained(p: Coordinator) -> None:
    clone_of(p)
    assert cut_over(p).returncode == 0
    pipeline = p.pipeline.model_copy(update={"checkpoints": Checkpoints.model_validate({"retain": 1})})
    assert freeze_due(p.settings, pipeline) == 1
    log = DeltaTable(str(p.tables.target))
    log.create_checkpoint()
    for version in range(log.version() + 1):
        (Path(str(p.tables.target)) / f"_delta_log/{version:020}.json").unlink()
    found = listed(p.settings, p.pipeline, checkpoints_in(p.settings, p.pipeline))
    assert (found[-1].checkpoint.name, found[-1].lost) == ("2/start", None)


def test_what_a_cut_over_under_way_needs_is_not_dropped(p: Coordinator) -> None:
    clone_of(p)
    assert cut_over(p, fault="generation.part_fenced").returncode == -9
    [needed] = [one.name for one in on_shelf(p.settings, p.pipeline) if one.name.startswith("q-")]
    refused = command("savepoint", "drop", "p", needed)
    assert (refused.returncode, "lakemark promote q --over p" in refused.stderr) == (1, True), refused.stderr
    assert cut_over(p).returncode == 0
    assert needed not in [one.name for one in on_shelf(p.settings, p.pipeline)]


def test_tables_that_differ_change_nothing(p: Coordinator) -> None:
    saved(p, "old", at="2")
    done = command("savepoint", "clone", "p", "old", "--as", "q")
    assert done.returncode == 0, done.stderr
    q, was = other(p, "q"), rows(p)
    promoting = Promoting(
        p.settings,
        q.pipeline,
        p.pipeline,
        accepts=False,
        reason="a test",
        started_by="me",
        listen=lambda fact: None,
        say=lambda text: None,
    )
    [target] = promoting.preview()
    assert not target.is_equal
    assert target.rows == (len([row for row in rows(p) if row[0] != 39]), len([row for row in rows(q) if row[0] != 39]))
    dry = cut_over(p, "--dry-run")
    assert (dry.returncode, rows(p)) == (1, was)


def test_a_file_that_says_another_thing_is_refused(p: Coordinator) -> None:
    clone_of(p)
    file = p.settings.pipelines / "q.yaml"
    data = yaml.safe_load(file.read_text())
    data["source"]["filter"] = "id > 3"
    file.write_text(yaml.safe_dump(data))
    refused = cut_over(p)
    assert (refused.returncode, "other: source.filter" in refused.stderr) == (1, True), refused.stderr
    text, declared = file_of_the_other(p.settings, other(p, "q").pipeline, p.pipeline)
    assert (declared.name, declared.target.table, declared.source.filter) == ("p", "lake://silver/p", "id > 3")
    assert "silver/q" not in text


def test_no_pipeline_takes_its_own_place(p: Coordinator) -> None:
    refused = command("promote", "p", "--over", "p", "--reason", "a test")
    assert (refused.returncode, "the same pipeline" in refused.stderr) == (1, True), refused.stderr
