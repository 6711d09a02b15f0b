"""The quality gate in real batches: what is set aside, what stops, what is only reported, and what is written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from include.audit.auditor import audit
from include.pipeline_file import Pipeline
from include.protocol.errors import QualityGate, SuiteError
from include.protocol.ranges import OffsetRange
from include.quality.evidence import judgements
from tests.support.world import World, as_dict

SCHEMA = "id BIGINT, seq BIGINT, name STRING, price DOUBLE, op STRING"


def rule(kind: str, on_fail: str | None = None, **kwargs: Any) -> dict[str, Any]:
    meta = {"lakemark": {"on_fail": on_fail}} if on_fail else {}
    return {"type": kind, "kwargs": kwargs, "meta": meta}


NAMED = rule("expect_column_values_to_not_be_null", column="name")
CHEAP = rule("expect_column_values_to_be_between", column="price", min_value=0, max_value=100)


def with_suite(
    world: World,
    *rules: dict[str, Any],
    again: Pipeline | None = None,
    target: dict[str, Any] | None = None,
    **quality: Any,
) -> Pipeline:
    """A pipeline with these rules. Args: again: a pipeline whose file is written once more."""
    world.write_suite("shop", rules)
    topic, name = (again.source.topics[0], again.name) if again else (world.topic(1), None)
    return world.pipeline(
        topic,
        name,
        source={"schema": SCHEMA},
        change={"keys": ["id"], "order_by": ["seq"], "delete_when": "op = 'd'"},
        quality={"suite": "shop", **quality},
        target=target or {},
    )


def send(world: World, pipeline: Pipeline, *rows: dict[str, Any]) -> None:
    usual = {"seq": 1, "name": "n", "price": 1.0, "op": "u"}
    world.produce(pipeline.source.topics[0], [{**usual, **row} for row in rows], partitions=1)


def test_a_broken_row_is_set_aside_with_every_rule_that_it_breaks(world: World) -> None:
    warned = rule("expect_column_values_to_match_regex", "warn", column="name", regex="^n")
    pipeline = with_suite(world, NAMED, CHEAP, warned)
    send(
        world,
        pipeline,
        {"id": 1},
        {"id": 2, "name": None, "price": 500},
        {"id": 3, "price": -1, "name": "x"},
        {"id": 4, "name": "other"},
        {"id": 5, "price": None},
    )
    world.run_batch(pipeline)
    assert sorted(as_dict(world.rows(pipeline))) == [1, 4, 5]
    aside = {row["offset"]: (row["reason"], row["rules"]) for row in world.quarantine(pipeline)}
    null, price, regex = (
        "column_values_to_not_be_null(name)",
        "column_values_to_be_between(price)",
        "column_values_to_match_regex(name)",
    )
    assert aside == {1: (f"breaks {null}; {price}", [null, price]), 2: (f"breaks {price}", [price, regex])}
    [commit] = [record.commit for record in world.coordinator(pipeline).ledger.state().batches]
    assert commit is not None and commit.counts is not None and commit.quality is not None
    assert (commit.counts.read, commit.counts.applied, commit.counts.quarantined) == (5, 3, 2)
    assert commit.quality["outcome"] == "quarantined"
    assert commit.quality["broken"] == {null: 1, price: 2, regex: 2}
    found = {row["rule"]: row for row in judgements(world.coordinator(pipeline).tables.quality)}
    assert {name: (row["policy"], row["success"], row["unexpected_count"]) for name, row in found.items()} == {
        null: ("quarantine", False, 1),
        price: ("quarantine", False, 2),
        regex: ("warn", False, 2),
    }
    assert sorted(found[price]["sample"]) == [-1.0, 500.0]
    assert {row["attempt_id"] for row in found.values()} == {commit.attempt_id}


def test_a_delete_is_not_judged(world: World) -> None:
    pipeline = with_suite(world, NAMED)
    send(world, pipeline, {"id": 1}, {"id": 2})
    world.run_batch(pipeline)
    send(world, pipeline, {"id": 1, "seq": 2, "name": None, "op": "d"})
    world.run_batch(pipeline)
    assert sorted(as_dict(world.rows(pipeline))) == [2]


def test_i1_a_failed_gate_lets_nothing_land_and_the_rerun_after_a_fix_applies_the_same_batch(world: World) -> None:
    strict = {**CHEAP, "meta": {"lakemark": {"on_fail": "fail"}}}
    pipeline = with_suite(world, NAMED, strict)
    send(world, pipeline, {"id": 1}, {"id": 2, "name": None}, {"id": 3, "price": 101})
    with pytest.raises(QualityGate, match=r"column_values_to_be_between\(price\): 1 of 3 rows break it") as failure:
        world.run_batch(pipeline)
    assert "101.0" not in str(failure.value)  # for all who may see the run's note
    assert "101.0" in failure.value.evidence
    assert world.rows(pipeline) == []
    assert world.quarantine(pipeline) == []
    planned = world.coordinator(pipeline).ledger.state().pending
    assert planned is not None and planned.batch.ranges == (OffsetRange(pipeline.source.topics[0], 0, 0, 3),)
    assert {row["outcome"] for row in judgements(world.coordinator(pipeline).tables.quality)} == {"failed"}

    send(world, pipeline, {"id": 4})  # not of the batch, whatever comes
    world.write_suite("shop", [NAMED])
    world.run_batch(pipeline)
    assert sorted(as_dict(world.rows(pipeline))) == [1, 3]
    state = world.coordinator(pipeline).ledger.state()
    assert [record.batch for record in state.batches] == [planned.batch]
    assert [a.outcome for a in state.batches[0].attempts] == ["QualityGate", "applied"]


def test_no_record_fails_an_attempt_by_the_condition_of_a_rule(world: World) -> None:
    """`1 / price` divides by zero on one of them. A condition that fails says that the rule is not about the row."""
    costly = {"row_condition": "1 / price > 0", "condition_parser": "spark"}
    pipeline = with_suite(
        world,
        rule("expect_column_max_to_be_between", "fail", column="id", max_value=2, **costly),
        rule("expect_column_sum_to_be_between", "fail", column="id", max_value=3, **costly),
        rule("expect_table_row_count_to_equal", "fail", value=2, **costly),
        rule("expect_column_values_to_be_unique", "fail", column="id", **costly),
    )
    send(world, pipeline, {"id": 1}, {"id": 2}, {"id": 2, "seq": 2, "price": 0.0, "name": None})
    world.run_batch(pipeline)
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]
    assert {row["success"] for row in judgements(world.coordinator(pipeline).tables.quality)} == {True}


@pytest.mark.parametrize(
    "wrong",
    [
        rule("expect_column_values_to_match_regex", column="name", regex="("),
        rule("expect_column_values_to_be_between", column="id", min_value="many"),
        rule("expect_column_max_to_be_between", column="id", max_value="many"),
        rule("expect_column_values_to_be_unique", column="id", row_condition="id > > 1", condition_parser="spark"),
    ],
)
def test_a_rule_that_can_only_fail_sets_nothing_aside(world: World, wrong: dict[str, Any]) -> None:
    pipeline = with_suite(world, NAMED, wrong)
    send(world, pipeline, {"id": 1}, {"id": 2, "name": None})
    with pytest.raises(SuiteError, match=r"shop\.json, rule column_"):
        world.run_batch(pipeline)
    assert world.rows(pipeline) == []
    assert world.quarantine(pipeline) == []
    assert judgements(world.coordinator(pipeline).tables.quality) == []


def test_a_query_that_fails_on_a_record_is_the_suites_error_and_shows_no_value(world: World) -> None:
    query = "SELECT name FROM {batch} GROUP BY name HAVING sum(CAST(name AS INT)) > 3"
    pipeline = with_suite(world, rule("unexpected_rows_expectation", "warn", unexpected_rows_query=query))
    send(world, pipeline, {"id": 1, "name": "secret-4711"})
    with pytest.raises(SuiteError, match="a query that fails on no row") as refused:
        world.run_batch(pipeline)
    assert "secret-4711" not in str(refused.value)
    assert "secret-4711" in refused.value.evidence


@pytest.mark.slow
def test_a_ceiling_stops_a_batch_that_would_mostly_be_set_aside(world: World) -> None:
    pipeline = with_suite(world, NAMED, quarantine_max_percent=50)
    send(world, pipeline, {"id": 1}, {"id": 2, "name": None}, {"id": 3, "name": None})
    with pytest.raises(QualityGate, match=r"at most 50 % in the quarantine; found 2 of 3 \(66.7 %\)"):
        world.run_batch(pipeline)
    assert world.rows(pipeline) == []
    send(world, pipeline, {"id": 4})
    world.run_batch(with_suite(world, NAMED, again=pipeline, quarantine_max_percent=70))
    assert sorted(as_dict(world.rows(pipeline))) == [1]


def test_rules_about_the_whole_batch(world: World) -> None:
    other = world.pipeline(world.topic(1), "names", source={"schema": "id BIGINT, seq BIGINT, name STRING"})
    send(world, other, {"id": 1, "name": "n"}, {"id": 2, "name": "m"})
    world.run_batch(other)
    pipeline = with_suite(
        world,
        NAMED,
        rule("expect_table_row_count_to_be_between", "warn", min_value=4),
        rule("expect_column_max_to_be_between", "warn", column="price", max_value=5, min_value=1),
        rule("expect_column_sum_to_be_between", "warn", column="price", max_value=5),
        rule("expect_column_unique_value_count_to_be_between", "warn", column="name", min_value=2, max_value=2),
        rule("expect_column_values_to_be_unique", "warn", column="id"),
        rule("expect_compound_columns_to_be_unique", "warn", column_list=["id", "name"]),
        rule("expect_column_values_to_be_of_type", "warn", column="id", type_="LongType"),
        rule(
            "unexpected_rows_expectation",
            "warn",
            unexpected_rows_query="SELECT b.* FROM {batch} b LEFT ANTI JOIN {lake://silver/names} n ON b.name = n.name",
        ),
    )
    send(
        world,
        pipeline,
        {"id": 1, "price": 5.0},
        {"id": 1, "seq": 2, "price": 2.0},
        {"id": 2, "name": "stranger"},
        {"id": 3, "name": None},
    )
    world.run_batch(pipeline)
    found = {row["expectation"]: row for row in judgements(world.coordinator(pipeline).tables.quality)}
    said = {name.removeprefix("expect_"): (row["success"], row["observed"]) for name, row in found.items()}
    assert said == {
        "column_values_to_not_be_null": (False, None),
        "table_row_count_to_be_between": (False, 3),
        "column_max_to_be_between": (True, 5.0),
        "column_sum_to_be_between": (False, 8.0),
        "column_unique_value_count_to_be_between": (True, 2),
        "column_values_to_be_unique": (False, None),
        "compound_columns_to_be_unique": (False, None),
        "column_values_to_be_of_type": (True, "LongType"),
        "unexpected_rows_expectation": (False, None),
    }
    assert found["expect_column_values_to_be_unique"]["unexpected_count"] == 2
    strangers = found["unexpected_rows_expectation"]
    assert [row["name"] for row in strangers["sample"]] == ["stranger"]
    assert strangers["result"]["versions"] == {"lake://silver/names": 1}


@pytest.mark.slow
def test_i8_i11_a_suite_changed_between_two_attempts_loses_nothing(world: World) -> None:
    """The first attempt dies after it has set a record aside; the second one sets another one aside."""
    pipeline = with_suite(world, NAMED)
    send(world, pipeline, {"id": 1}, {"id": 2, "name": None}, {"id": 3, "price": 500})
    killed = world.lakemark("run", pipeline.name, LAKEMARK_TEST_FAULT="attempt.part_landed=kill")
    assert "killed by SIGKILL" in killed.stderr
    assert [row["offset"] for row in world.quarantine(pipeline)] == [1]
    world.run_batch(with_suite(world, CHEAP, again=pipeline))
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]
    assert [row["offset"] for row in world.quarantine(pipeline)] == [2]
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.slow
def test_the_table_itself_is_judged_at_a_version(world: World) -> None:
    pipeline = with_suite(world, NAMED)
    send(world, pipeline, {"id": 1}, {"id": 2, "price": 500})
    world.run_batch(pipeline)
    send(world, pipeline, {"id": 2, "seq": 2, "op": "d"})
    world.run_batch(pipeline)
    world.write_suite("shop_table", [CHEAP, rule("expect_compound_columns_to_be_unique", column_list=["id", "name"])])
    with_suite(world, NAMED, again=pipeline, table={"suite": "shop_table"})
    good = world.lakemark("quality", "check", pipeline.name)
    assert good.stdout.strip() == f"{pipeline.name} version 2: passed, 2 of 2 rules hold"
    bad = world.lakemark("quality", "check", pipeline.name, "--version", "1")
    assert bad.returncode == 1
    assert "column_values_to_be_between(price): 1 of 2 rows break it" in bad.stderr
    assert "Evidence: column_values_to_be_between(price): like 500.0" in bad.stderr
    said = [row for row in judgements(world.coordinator(pipeline).tables.quality) if row["suite"] == "shop_table"]
    assert [(row["table_version"], row["outcome"]) for row in said[::2]] == [(2, "passed"), (1, "failed")]
    assert "held    fail        compound" in world.lakemark("quality", "show", pipeline.name).stdout
    for file in world.on_disk(world.coordinator(pipeline).tables.target).glob("*.parquet"):
        file.unlink()
    damaged = world.lakemark("quality", "check", pipeline.name)
    assert damaged.returncode == 1
    assert "TableDamaged: a file of the table is missing" in damaged.stderr
    assert f"`lakemark reset {pipeline.name} --from earliest" in damaged.stderr


@pytest.mark.slow
def test_a_drafted_suite_gives_reasons_and_holds_for_what_it_was_drafted_from(world: World) -> None:
    pipeline = with_suite(world, NAMED)
    rows = [{"id": n, "price": n / 10, "name": "n" if n % 2 else "m", "op": "u"} for n in range(300)]
    send(world, pipeline, *rows, {"id": 300, "price": None})
    drafted = json.loads(world.lakemark("quality", "suggest", pipeline.name).stdout)
    reasons = {(r["type"].removeprefix("expect_column_"), r["kwargs"]["column"]): r for r in drafted["expectations"]}
    assert reasons["values_to_be_in_set", "name"]["kwargs"]["value_set"] == ["m", "n"]
    assert reasons["values_to_be_in_set", "name"]["notes"] == "only 2 different values among 301"
    assert reasons["values_to_not_be_null", "price"]["kwargs"]["mostly"] == 0.99
    assert reasons["values_to_be_between", "id"]["kwargs"] == {"column": "id", "min_value": 0, "max_value": 450}
    assert {r["meta"]["lakemark"]["on_fail"] for r in drafted["expectations"]} == {"warn"}

    assert world.lakemark("quality", "suggest", pipeline.name, "--write").returncode == 0
    again = world.lakemark("quality", "suggest", pipeline.name, "--write")
    assert "a draft never replaces a file" in again.stderr
    path = world.settings.pipelines / f"{pipeline.name}.yaml"
    path.write_text(path.read_text().replace("suite: shop", f"suite: {pipeline.name}"))
    assert world.lakemark("validate", pipeline.name).returncode == 0
    world.run_batch(world.load(pipeline.name))
    assert {row["outcome"] for row in judgements(world.coordinator(pipeline).tables.quality)} == {"passed"}
