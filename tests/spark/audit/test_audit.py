"""`lakemark audit` finds what it is for: each kind of damage is done by hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from include.audit.auditor import audit
from include.cli.command import main
from include.installation.stack import Stack
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.ledger_events import BatchPlanned
from tests.conftest import world_in
from tests.support.readers import opened
from tests.support.world import World

NAME = "audited"


@pytest.fixture(scope="module")
def sound(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake in which a pipeline has two batches, and two records in the quarantine."""
    folder = tmp_path_factory.mktemp("sound")
    world = world_in(folder, stack)
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, NAME, source={"limits": {"records_per_batch_max": 10}})
    good = [{"id": i, "seq": 1, "name": "a", "op": "u"} for i in range(18)]
    world.produce(topic, [*good, b"{", None], 1)
    assert world.drain(pipeline) == 2
    return folder


@pytest.fixture
def world(sound: Path, stack: Stack, tmp_path: Path) -> World:
    """A copy of it, to be damaged."""
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return world_in(tmp_path, stack)


@pytest.fixture
def audited(world: World) -> Pipeline:
    return find_pipeline(NAME, world.settings.pipelines, world.settings.environment)


def findings(world: World, pipeline: Pipeline) -> str:
    return " | ".join(map(str, audit(world.settings, pipeline).findings))


def test_what_is_right_has_no_findings(world: World, audited: Pipeline) -> None:
    report = audit(world.settings, audited)
    assert (report.findings, report.batches, report.commits_verified, report.records) == ((), 2, 2, 20)


def test_a_replaced_target_is_found(world: World, audited: Pipeline) -> None:
    shutil.rmtree(world.on_disk(world.coordinator(audited).tables.target))
    assert (
        "the target lacks batches that the ledger says are committed: expected marker 1 or higher, found no table"
        in findings(world, audited)
    )


def test_a_lost_ledger_is_found(world: World, audited: Pipeline) -> None:
    shutil.rmtree(world.on_disk(world.coordinator(audited).ledger.uri))
    assert (
        "the target holds batches that the ledger does not know: expected a marker below 0, found marker 1"
        in findings(world, audited)
    )


def test_a_ledger_of_other_ranges_is_found(world: World, audited: Pipeline) -> None:
    ledger = world.coordinator(audited).ledger
    first, second = (record.batch for record in ledger.state().batches)
    shutil.rmtree(world.on_disk(ledger.uri))
    ledger.append(lambda state: [BatchPlanned(replace(first, ranges=second.ranges))])
    assert "the commit's offset ranges are not the plan's" in findings(world, audited)


def test_records_that_left_the_quarantine_are_found(world: World, audited: Pipeline) -> None:
    opened(world.coordinator(audited).tables.quarantine).delete("value is null")
    assert "the quarantine holds 1 records, the commit says 2" in findings(world, audited)


def test_a_commit_with_other_numbers_is_found(world: World, audited: Pipeline) -> None:
    [*_, last] = sorted((world.on_disk(world.coordinator(audited).tables.target) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["operationMetrics"]["numSourceRows"] = "7"
    last.write_text("\n".join(map(json.dumps, actions)))
    assert "the MERGE counted other rows than the job gave it" in findings(world, audited)


def test_a_batch_in_the_log_twice_is_found(world: World, audited: Pipeline) -> None:
    [*_, last] = sorted((world.on_disk(world.coordinator(audited).tables.target) / "_delta_log").glob("*.json"))
    text = last.read_text()
    last.write_text(text.replace('\\"batch_id\\":1,', '\\"batch_id\\":0,'))
    assert last.read_text() != text
    assert "batch 0 is in the target's log 2 times" in findings(world, audited)


def deep_findings(world: World, pipeline: Pipeline) -> str:
    return " | ".join(map(str, audit(world.settings, pipeline, deep=True).findings))


def test_what_is_right_is_recomputed_and_equal(world: World, audited: Pipeline) -> None:
    report = audit(world.settings, audited, deep=True)
    assert report.findings == ()
    assert (report.recomputed.records_read, report.recomputed.rows_equal) == (20, 18)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM {} WHERE id = 3", "1 keys that the source holds have no row"),
        ("UPDATE {} SET name = 'edited' WHERE id IN (3, 4)", "2 rows have other values than their records"),
        pytest.param(
            "UPDATE {} SET name = null WHERE id = 3",
            "1 rows have other values than their records",
            marks=pytest.mark.slow,
        ),
        ("INSERT INTO {} SELECT * FROM {} WHERE id = 3", "2 rows share their key with another row"),
        pytest.param(
            "INSERT INTO {} SELECT 99 AS id, * EXCEPT (id) FROM {} WHERE id = 3",
            "rows point to a record",
            marks=pytest.mark.slow,
        ),
        (
            "UPDATE {} SET seq = 0 WHERE id = 3",
            "1 rows show an older change than the newest one",
        ),
    ],
)
def test_rows_that_others_changed_are_found_by_recomputing(
    world: World, audited: Pipeline, statement: str, says: str
) -> None:
    table = f"delta.`{world.coordinator(audited).tables.target}`"
    with world.session() as spark:
        spark.sql(statement.replace("{}", table))
    assert says in deep_findings(world, audited)


def test_quarantined_bytes_that_were_edited_are_found(world: World, audited: Pipeline) -> None:
    quarantine = opened(world.coordinator(audited).tables.quarantine)
    quarantine.update(
        predicate="value is not null", updates={"reason": "'edited'", "value": "arrow_cast('x', 'Binary')"}
    )
    assert "1 quarantined records hold other bytes than Kafka does" in deep_findings(world, audited)


def test_values_that_are_read_by_our_own_rules_are_equal(world: World) -> None:
    """docs/semantics.md, "Values": DuckDB alone reads many of them otherwise."""
    schema = (
        "id BIGINT, seq BIGINT, s STRING, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, x DECIMAL(12, 2), y DECIMAL(38, 10), "
        "f FLOAT, g DOUBLE, b BINARY, k TINYINT, m MAP<STRING, TIMESTAMP>, st STRUCT<u: STRING, v: DECIMAL(9, 3)>, "
        "a ARRAY<INT>"
    )
    texts = [
        '"s":1.50',
        '"s":1E2',
        '"s":-0',
        '"s":{"a": [1, 2.0, null, true]}',
        '"s":[ ]',
        '"s":true',
        '"s":"\\u0000x"',
    ]
    texts += [
        '"s":["\\u001f\\u00e4\\n\\"\\\\\\/\\u007f\\u2028\\ud83d\\ude00"]',
        '"s":12345678901234567890123',
        '"s":"1.50"',
    ]
    texts += ['"t":1700000000123456789', '"t":-1', '"t":"1700000000123456789"', '"t":"2024-06-01T12"', '"t":"2024-6-1"']
    texts += [
        '"t":"2024-06-01 12:30"',
        '"t":"2024-06-01 1:2:3"',
        '"t":"2024-06-01T12:00:00+2"',
        '"t":"2024-06-01T12:00:00."',
    ]
    texts += ['"t":"2024-06-01T12:00:00 -0230"', '"t":"2024-06-01T12:00:00+2:5"', '"t":"2024-06-01T12:00:00+01:00:30"']
    texts += ['"t":"2024-06-01T12:00:00.1234569Z"', '"t":"0001-01-01"', '"t":"9999-12-31T23:59:59.999999Z"']
    texts += ['"t":"2024-06-01T12:00:00.1+18:00"', '"t":"2024-06-01T12:00:00+18:01"', '"t":"2024-06-01T12:00Z"']
    texts += [
        '"t":"2024-06-01T12+02:00"',
        '"t":"2024-06-01 "',
        '"t":"2024-06-01T12:00:00 "',
        '"t":"2024-06-01T12:00:00Z "',
    ]
    texts += [
        '"n":-1',
        '"n":"2024-06-01T12"',
        '"n":"2024-06-01T12:00:00"',
        '"d":"2024-6-1"',
        '"d":"2024-06-01T00:00:00Z"',
    ]
    texts += ['"x":2.345', '"x":"2.345"', '"x":1e3', '"x":-0.005', '"x":".5"', '"y":1234567890123456789.0123456785']
    texts += [
        '"f":16777217',
        '"f":0.1',
        '"f":1e-50',
        '"f":9007199791611905',
        '"g":9007199254740993',
        '"g":"NaN"',
        '"g":"-INF"',
    ]
    texts += ['"g":1e-350', '"b":"AAECAw=="', '"k":-128', '"m":{"x":1,"y":"2024-06-01T12"}', '"a":[1,null]']
    texts += ['"st":{"u":1.0,"v":"9.9995"}', '"S":"x"']
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic, "values", source={"schema": schema, "timestamps": "nanos"})
    world.produce(topic, [f'{{"id":{n},"seq":1,{text}}}'.encode() for n, text in enumerate(texts)], 1)
    world.run_batch(pipeline)
    report = audit(world.settings, pipeline, deep=True)
    aside = [bytes(row["value"]) for row in world.quarantine(pipeline)]
    assert report.findings == ()
    assert (report.recomputed.rows_equal, report.recomputed.records_read) == (len(texts) - len(aside), len(texts))
    assert len(aside) < 5, aside


@pytest.mark.slow
def test_a_replay_of_records_of_an_old_topic_is_right(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them stand at one position, in the old topic and in the new one."""
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)
    topic, schema = world.topic(partitions=1), "id BIGINT, seq BIGINT, at TIMESTAMP"
    pipeline = world.pipeline(topic, "replayed", source={"schema": schema})
    pending = {"seq": 1, "at": 1_700_000_000}  # nothing says what it counts
    world.produce(topic, [{"id": 1, **pending}], 1)
    world.run_batch(pipeline)
    world.recreate_topic(topic, 1)
    world.produce(topic, [{"id": 2, **pending}, {"id": 3, "seq": 1}], 1)
    assert main(["reset", pipeline.name, "--from", "earliest", "--reason", "why"]) == 0
    world.run_batch(pipeline)
    pipeline = world.pipeline(topic, pipeline.name, source={"schema": schema, "timestamps": "seconds"})
    assert main(["quarantine", "replay", pipeline.name, "--reason", "why"]) == 0
    assert {row["id"] for row in world.rows(pipeline)} == {1, 2, 3}
    report = audit(world.settings, pipeline, deep=True)
    assert report.findings == ()
    assert report.recomputed.rows_equal == 2


def test_the_command_says_so_and_exits_with_1(
    world: World, audited: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)
    assert main(["audit", audited.name]) == 0
    shutil.rmtree(world.on_disk(world.coordinator(audited).tables.target))
    assert main(["audit", audited.name, "--json"]) == 1
    said = capsys.readouterr().out
    assert "2 batches, 2 commits compared, 20 records, no findings" in said
    assert "the table was replaced or rolled back" in said


def test_a_broken_file_hides_no_other_pipeline(
    world: World, audited: Pipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)
    (world.settings.pipelines / "broken.yaml").write_text("name: broken")
    for command in ("audit", "status"):
        assert main([command]) == 1
        said = capsys.readouterr()
        assert audited.name in said.out
        assert "broken.yaml): 3 problems" in said.err


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan"])
    assert ended.value.code == 2
    assert "pipeline" in capsys.readouterr().err


def test_an_expired_source_is_found(world: World, audited: Pipeline) -> None:
    """Last: it changes the topic that all tests of this file share."""
    [topic] = audited.source.topics
    world.produce(topic, [{"id": 1, "seq": 9, "name": "z", "op": "u"}] * 3, 1)
    world.delete_before(topic, 0, 21)
    assert f"ledger skip audited --range {topic}-0:20-21" in findings(world, audited)
