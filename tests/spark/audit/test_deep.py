"""`lakemark audit --deep` computes every table of rows again: it finds rows that were changed by hand in each of them,
and finds nothing in tables that are right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from include.audit.auditor import audit
from include.audit.report import AuditReport
from include.cli.command import main
from include.installation.stack import Stack
from include.lake.stores import files_at
from include.pipeline_file.tables import table_uri
from tests.conftest import world_in
from tests.support.kinds_of_tables import MADE, SCHEMA, change, feed
from tests.support.world import World, read_table

QUICK = ("beside", "routes")


_QUICK_OF_A_TABLE = 2


def kinds(*others: Any) -> list[Any]:
    """The names of MADE, each with other parameters. All are slow but the first ones of each table of QUICK."""
    found = others or tuple((name,) for name in MADE)
    before = [sum(other[:2] == those[:2] for other in found[:n]) for n, those in enumerate(found)]
    quick = [those[0] in QUICK and number < _QUICK_OF_A_TABLE for those, number in zip(found, before, strict=True)]
    return [
        pytest.param(*those, marks=() if is_quick else pytest.mark.slow)
        for those, is_quick in zip(found, quick, strict=True)
    ]


@pytest.fixture(scope="module")
def sound(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a folder with a lake in which a pipeline of a kind has some batches, once."""

    @cache
    def made(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        MADE[name](world_in(folder, stack), name)
        return folder

    return made


@pytest.fixture
def of_kind(sound: Callable[[str], Path], stack: Stack, tmp_path: Path) -> Callable[[str], World]:
    """A copy of it, to be damaged."""

    def copy(name: str) -> World:
        shutil.copytree(sound(name), tmp_path, dirs_exist_ok=True)
        return world_in(tmp_path, stack)

    return copy


def deep(world: World, name: str) -> AuditReport:
    return audit(world.settings, world.load(name), deep=True)


def damage(world: World, table: str, *statements: str) -> None:
    with world.session() as spark:
        for statement in statements:
            spark.sql(statement.replace("{}", f"delta.`{table_uri(world.settings, table)}`"))


@pytest.mark.parametrize("name", kinds())
def test_tables_that_are_right_have_no_findings(of_kind: Callable[[str], World], name: str) -> None:
    world = of_kind(name)
    report = deep(world, name)
    assert report.findings == ()
    compared = {table.table: table.rows_equal + table.rows_beyond_reach for table in report.tables}
    assert compared == {table: len(read_table(table_uri(world.settings, table))) for table in compared}
    assert all(compared.values())
    assert {depth for table in report.tables for depth in report.looks[table.participant]} == {"log", "rows"}
    # A truncate that comes late leaves alone what a patch has left alone in a newer row.
    assert sum(table.rows_beyond_reach for table in report.tables) == (1 if name == "truncates" else 0)
    assert report.recomputed is not None and report.recomputed.rows_equal == report.tables[0].rows_equal


OTHER_VALUES, OTHER_PERIODS = "rows have other values than their records", "rows show another period than follows"
NO_ROW, NO_CHANGE = "1 keys that the source holds have no row", "1 changes that the source holds have no row"
HIDDEN = "SET valid_from = null, valid_to = null, is_current = false"


@pytest.mark.parametrize(
    ("name", "table", "statement", "says"),
    kinds(
        ("beside", "beside_history", "DELETE FROM {} WHERE id = 1 AND name = 'late'", NO_CHANGE),
        ("beside", "beside_history", "DELETE FROM {} WHERE id = 2 AND name IS NULL", NO_CHANGE),
        ("beside", "beside_history", "UPDATE {} SET name = 'edited' WHERE id = 1 AND seq = 20", f"1 {OTHER_VALUES}"),
        ("beside", "beside_history", "UPDATE {} SET valid_to = 21 WHERE id = 1 AND seq = 10", f"2 {OTHER_PERIODS}"),
        ("beside", "beside_history", f"UPDATE {{}} {HIDDEN} WHERE id = 1 AND seq = 10", f"1 {OTHER_PERIODS}"),
        (
            "beside",
            "beside_history",
            "INSERT INTO {} SELECT 99 AS id, * EXCEPT (id) FROM {} WHERE id = 1 AND seq = 20",
            "1 rows point to a record that does not make such a row",
        ),
        ("beside", "beside_history", "INSERT INTO {} SELECT * FROM {} WHERE seq = 20", "2 rows share their key and"),
        ("beside", "beside", "UPDATE {} SET name = 'edited' WHERE id = 1", f"1 {OTHER_VALUES}"),
        ("history", "history", "DELETE FROM {} WHERE id = 4 AND _lakemark.deleted", NO_CHANGE),
        ("history", "history", "UPDATE {} SET is_current = true WHERE id = 2", OTHER_PERIODS),
        ("patches", "patches", "UPDATE {} SET note = 'edited' WHERE id = 1", f"1 {OTHER_VALUES}"),
        ("patches", "patches", "UPDATE {} SET name = 'edited' WHERE id = 1", f"1 {OTHER_VALUES}"),
        ("patches", "patches", "DELETE FROM {} WHERE id = 2", NO_ROW),
        ("patches", "patches_history", "UPDATE {} SET note = 'edited' WHERE id = 1 AND seq = 9", f"1 {OTHER_VALUES}"),
        ("patches", "patches_history", "DELETE FROM {} WHERE id = 2 AND seq = 8", NO_CHANGE),
        ("routes", "routes_odd", "DELETE FROM {} WHERE id = 7", NO_ROW),
        ("routes", "routes_odd", "DELETE FROM {} WHERE id = 3", NO_ROW),
        ("routes", "routes_odd", "UPDATE {} SET name = 'edited' WHERE id = 21", f"1 {OTHER_VALUES}"),
        ("routes", "routes", "DELETE FROM {} WHERE id = 4", NO_ROW),
        ("routes", "routes", "UPDATE {} SET op = 'edited' WHERE id IN (0, 2)", f"2 {OTHER_VALUES}"),
        ("truncates", "truncates", "DELETE FROM {} WHERE id IS NULL", NO_ROW),
        ("truncates", "truncates", "UPDATE {} SET customer = 'c' WHERE id = 2", f"1 {OTHER_VALUES}"),
        ("envelopes", "envelopes", "UPDATE {} SET price = price + 1 WHERE id = 7", f"1 {OTHER_VALUES}"),
        ("envelopes", "envelopes_history", "UPDATE {} SET notes = null WHERE id = 1", OTHER_VALUES),
        ("lines", "lines", "UPDATE {} SET name = 'edited' WHERE id = 3", f"1 {OTHER_VALUES}"),
        ("texts", "texts", "UPDATE {} SET line = 'edited' WHERE kafka_offset = 1", f"1 {OTHER_VALUES}"),
        ("rescued", "rescued", 'UPDATE {} SET _rescued = \'{"n":"6"}\' WHERE id = 0', f"1 {OTHER_VALUES}"),
        ("transformed", "transformed", "UPDATE {} SET amount = 1 WHERE order_id = 1", f"2 {OTHER_VALUES}"),
        ("transformed", "transformed", "DELETE FROM {} WHERE order_id = 4", NO_ROW),
    ),
)
def test_rows_that_were_changed_by_hand_are_found(
    of_kind: Callable[[str], World], name: str, table: str, statement: str, says: str
) -> None:
    world = of_kind(name)
    damage(world, f"lake://silver/{table}", statement)
    report = deep(world, name)
    assert [finding.where for finding in report.findings if says in finding.what and table in finding.where]
    [damaged] = [t.participant for t in report.tables if t.table == f"lake://silver/{table}"]
    assert report.looks[damaged]["rows"].findings
    assert sum(look.findings for looks in report.looks.values() for look in looks.values()) == len(report.findings)


def test_a_table_that_was_named_later_has_to_hold_only_what_came_later(world: World) -> None:
    pipeline = world.pipeline(world.topic(1), "named_later")
    feed(world, pipeline, [change(1, 1), change(2, 1)])
    target = {"table": "lake://silver/named_later", "history_table": "lake://silver/named_later_history"}
    pipeline = world.pipeline(pipeline.source.topics[0], "named_later", target=target)
    told = audit(world.settings, pipeline, deep=True)
    assert (told.findings, told.tables[1].not_recomputed) == ((), "there is no such table yet")
    feed(world, pipeline, [change(1, 2), change(3, 1)])
    told = audit(world.settings, pipeline, deep=True)
    assert (told.findings, [table.rows_equal for table in told.tables]) == ((), [3, 2])


def test_rows_beyond_reach_stand_for_their_records(world: World) -> None:
    """What Kafka has dropped is in the history all the same, and the periods around it are compared."""
    pipeline = world.pipeline(world.topic(1), "dropped", change={"history": "scd2"})
    feed(
        world, pipeline, [change(1, 10, "a"), change(1, 20, "b"), change(2, 1)], [change(1, 15, "late"), change(1, 30)]
    )
    world.delete_before(pipeline.source.topics[0], 0, 3)
    told = audit(world.settings, pipeline, deep=True)
    assert (told.findings, str(told.recomputed)) == (
        (),
        "recomputed from 2 records: 2 rows are equal; 3 rows are beyond reach of Kafka's records",
    )
    damage(world, "lake://silver/dropped", "UPDATE {} SET valid_to = 99 WHERE seq = 10")
    [found] = audit(world.settings, pipeline, deep=True).findings[-1:]
    assert OTHER_PERIODS in found.what


def test_a_column_that_was_added_is_missing_in_older_rows(world: World) -> None:
    pipeline = world.pipeline(world.topic(1), "grown", change={"history": "scd2"})
    feed(world, pipeline, [change(1, 1, more="x"), change(2, 1, more="x")])
    pipeline = world.pipeline(
        pipeline.source.topics[0], "grown", source={"schema": f"{SCHEMA}, more STRING"}, change={"history": "scd2"}
    )
    assert audit(world.settings, pipeline, deep=True).findings == ()  # no batch has added it yet
    feed(world, pipeline, [change(1, 2, more="y")])
    assert audit(world.settings, pipeline, deep=True).findings == ()
    damage(world, "lake://silver/grown", "UPDATE {} SET more = null WHERE seq = 2")
    found = audit(world.settings, pipeline, deep=True).findings
    assert any(f"1 {OTHER_VALUES}" in finding.what for finding in found)


def test_what_cannot_be_computed_is_named_and_is_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name, value in world.settings.child_environment().items():
        monkeypatch.setenv(name, value)
    world.settings.transforms.mkdir(exist_ok=True)
    (world.settings.transforms / "same.py").write_text("def transform(changes, references):\n    return changes\n")
    transform = {"file": "same.py", "schema": SCHEMA}
    target = {"table": "lake://silver/in_python", "history_table": "lake://silver/in_python_history"}
    pipeline = world.pipeline(world.topic(1), "in_python", transform=transform, target=target)
    feed(world, pipeline, [change(1, 1)])
    assert main(["audit", "in_python", "--deep"]) == 0
    why = "was not recomputed: transform.file same.py is Python, which only Spark can run"
    said = capsys.readouterr().out
    assert f"lake://silver/in_python {why}" in said
    assert f"lake://silver/in_python_history {why}" in said
    assert main(["audit", "in_python", "--deep", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert (told["recomputed"], [table["role"] for table in told["tables"]]) == (None, ["target", "history"])
    assert {depth for looks in told["looks"].values() for depth in looks} == {"log"}


TYPES = {
    "whole": "BIGINT",
    "small": "TINYINT",
    "money": "DECIMAL(38, 10)",
    "ratio": "DOUBLE",
    "single": "FLOAT",
    "flag": "BOOLEAN",
    "raw": "BINARY",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "tags": "ARRAY<STRUCT<name: STRING, weight: DECIMAL(5, 2)>>",
    "more": "MAP<STRING, TIMESTAMP>",
    "_row": "STRING",
    "_wanted": "BOOLEAN",
}
VALUES: dict[str, list[Any]] = {
    "whole": [-(2**63), 2**63 - 1],
    "small": [-128, 127],
    "money": ["-9999999999999999999999999999.9999999999", 0.1],
    "ratio": ["NaN", -0.0, 1e308],
    "single": [0.1, "-Infinity"],
    "flag": [True, False],
    "raw": ["AP8=", ""],
    "day": ["0001-01-01", "1582-10-10", "9999-12-31"],
    "at": ["0001-01-01T00:00:00.000001Z", "1582-10-10T12:00:00+14:00", "2026-03-29T02:30:00+01:00"],
    "local": ["0001-01-01T00:00:00.000001", "9999-12-31T23:59:59.999999"],
    "tags": [[], [{"name": "a\u00df", "weight": 1.5}, None]],
    "_row": ["r"],
    "_wanted": [False, True],
    "more": [{}, {"x": "1969-12-31T23:59:59.999999Z", "y": None}],
}


def test_a_condition_that_only_spark_knows_is_asked_of_spark(world: World) -> None:
    """It sees the same values as the job did: a hash over all columns, of every type, decides about each record."""
    columns = ", ".join(("name", *TYPES))
    hashed = f"crc32(to_json(struct({columns})))"
    schema = ", ".join(("id BIGINT, seq BIGINT, name STRING", *(f"{name} {type_}" for name, type_ in TYPES.items())))
    pipeline = world.pipeline(
        world.topic(1),
        "hashed",
        source={"schema": schema, "filter": f"{hashed} % 3 <> 0"},
        change={"keys": ["id"], "order_by": ["seq"], "delete_when": f"{hashed} % 3 = 1 AND name LIKE 'a\\\\_%'"},
        target={"routes": [{"table": "lake://silver/hashed_odd", "when": "1 / (seq % 5) > 0.3 OR bin(id) LIKE '%00'"}]},
    )
    records = [
        {"id": n, "seq": n, "name": f"a{'_' * (n % 3)}{n}", **{c: v[n % len(v)] for c, v in VALUES.items() if n % 7}}
        for n in range(180)
    ]
    feed(world, pipeline, records)
    counts = world.counts(pipeline)
    assert min(counts.filtered, counts.applied, counts.quarantined) > 10
    report = deep(world, "hashed")
    assert report.findings == ()
    assert [(table.not_recomputed, table.rows_beyond_reach) for table in report.tables] == [(None, 0)] * 2
    tables = ("silver/hashed", "silver/hashed_odd")
    shown = [len(read_table(table_uri(world.settings, f"lake://{table}"))) for table in tables]
    assert [table.rows_equal for table in report.tables] == shown
    assert min(shown) > 5
    damage(world, "lake://silver/hashed_odd", "DELETE FROM {} WHERE id % 8 = 0")
    found = [finding.what for finding in deep(world, "hashed").findings]
    assert found[1:] == ["9 keys that the source holds have no row"]
    audits = world.settings.lake / "_lakemark/audits"
    assert [*files_at(audits).list(audits)] == []
