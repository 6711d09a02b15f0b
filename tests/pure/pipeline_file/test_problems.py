"""All that is wrong with a pipeline file is told at once, each on its own line, in words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from include.pipeline_file import Pipeline, load_pipeline, load_pipelines, variables_of
from include.pipeline_file.in_words import IN_WORDS
from include.protocol.errors import PipelineFileError, error_from_facts
from tests.pure.pipeline_file.test_pipeline_file import changed, written

LONG = " OR ".join(f"id = {n:04}" for n in range(700))


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """Each on its own line: also what does not fit together, as far as it does not follow from another mistake."""
    data = changed("schedule", "x")
    data["source"] |= {"format": "xml", "topics": "orders", "filter": "amount > 1"}
    data["change"] |= {"keys": ["ident"], "delete_when": "op = 'd'"}
    data["target"] |= {"tabel": "lake://a/b", "cluster_by": ["x"]}
    data |= {"name": "order", "merge_every": 5}
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(tmp_path, data), {"KAFKA_BROKERS": "k"})
    first, *lines, last = str(failure.value).splitlines()
    assert first == f"the pipeline file is not valid ({tmp_path / 'orders.yaml'}): 10 problems"
    assert [line.split(":")[0].strip() for line in lines] == [
        *("name", "schedule", "source.topics", "source.format", "target.tabel"),
        *("change.keys", "target.cluster_by", "source.filter", "change.delete_when", "merge_every"),
    ]
    assert "source.topics: expected a list; found 'orders'" in lines[2]
    assert "source.filter: expected a column of source.schema: id, at; found 'amount'" in lines[7]
    assert last == "What to do: correct the file and check it with `lakemark validate orders`"
    again = error_from_facts(json.loads(json.dumps(failure.value.facts())))
    assert str(again) == str(failure.value)


def test_what_follows_from_another_mistake_is_no_problem_of_its_own(tmp_path: Path) -> None:
    data = changed("source.schema", "id BIGNT, at TIMESTAMP")
    data["source"]["filter"] = "nothing_of_the_kind > 1"
    data["change"]["order_by"] = "at"
    data["change"]["history"] = "scd2"
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(tmp_path, data), {"KAFKA_BROKERS": "k"})
    assert [problem.field for problem in failure.value.problems] == ["source.schema", "change.order_by"]


@pytest.mark.parametrize(
    ("condition", "unknown"),
    [
        ("id > 1 AND at IS NOT NULL", []),
        ("ID > 1 AND `At` < current_timestamp", []),
        ("exists(tags, tag -> tag.name = 'x' AND tag.weight > id)", []),
        ("place.city = 'Rome' AND places['x'].city = 'Rome'", []),
        ("_lakemark.deleted", []),
        ("at > timestamp'2026-01-01' - INTERVAL 1 DAY AND extract(YEAR FROM at) = 2026", []),
        ("id IN (1, 2) OR cast(id AS STRING) LIKE '1%' OR id BETWEEN 1 AND 2", []),
        ("status = 'x' AND id = 1 AND stauts = 'y'", ["status", "stauts"]),
        ("place2.city = 'Rome'", ["place2"]),
        ("aggregate(tags, 0, (sum, tag) -> sum + tag.weight) > limit_", ["limit_"]),
        ('id = "a text, as Spark reads it"', []),
        ("this is no SQL that sqlglot knows ~~ ??", []),
        ("exists(tags, E -> e.weight > id)", []),  # Spark ignores case
        ("timediff(HOUR, at, at) > 1", []),
        ("cast(id AS STRING) COLLATE UTF8_BINARY = 'a'", []),
        ("id IN (SELECT q FROM VALUES (1) AS t(q))", []),
        ("map(id) = 1", []),  # the parser itself fails
        (f"{'INT(' * 25}id{')' * 25} = 1", []),  # it takes for ever
    ],
)
def test_the_columns_of_a_condition_are_there(tmp_path: Path, condition: str, unknown: list[str]) -> None:
    data = changed("source.filter", condition)
    place = "STRUCT<city: STRING>"
    tags = "ARRAY<STRUCT<name: STRING, weight: INT>>"
    data["source"]["schema"] += f", tags {tags}, place {place}, places MAP<STRING, {place}>"
    data["change"]["delete_when"] = condition
    data["target"]["routes"] = [{"table": "lake://a/b", "when": condition}]
    file = written(tmp_path, data)
    if not unknown:
        load_pipeline(file, {"KAFKA_BROKERS": "k"})
        return
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(file, {"KAFKA_BROKERS": "k"})
    fields = ("source.filter", "change.delete_when", "target.routes.0.when")
    found = [(problem.field, problem.found) for problem in failure.value.problems]
    assert found == [(field, repr(name)) for field in fields for name in unknown]


def test_every_pattern_has_words() -> None:
    def patterns(schema: object) -> Iterator[str]:
        match schema:
            case dict():
                yield from [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
                yield from chain.from_iterable(map(patterns, schema.values()))
            case list():
                yield from chain.from_iterable(map(patterns, schema))

    assert {*patterns(Pipeline.model_json_schema())} == IN_WORDS.keys()


def test_a_name_in_another_case_is_pointed_out(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=r"\(did you mean id\?\)"):
        load_pipeline(written(tmp_path, changed("change.keys", ["ID"])), {"KAFKA_BROKERS": "k"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("target: {table: !!binary bGFrZTovL3MvYQ==}", "plain values"),  # the table of another pipeline, unseen
        ("change: {keys: [id], order_by: !!set {at, id}}", "plain values"),  # without an order
        ('description: "a\\0b"', "without control characters"),  # which a database of Airflow's refuses
        ('description: "\\e[2J"', "without control characters"),
        ("[a, b]: x", "valid YAML"),
        ("a: &a [" + "x" * 90_000 + "]\nb: [" + "*a, " * 5_000 + "]", "at most 20,000 values"),
    ],
)
def test_what_no_field_takes_is_refused_first(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(tmp_path, text), {})
    assert expected in failure.value.expected


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("source.topics_pattern", "a{50000000}", "at most 10,000 repetitions in all"),
        ("source.topics_pattern", "(a{9999}){9999}", "at most 10,000 repetitions in all"),
        ("source.topics_pattern", "(?R)", "a regular expression"),
        ("source.schema", ", ".join(f"c{n} INT" for n in range(3_000)), "at most 2,000 columns"),
        ("change.order_by", ["at"] * 400, "a list of at most 50"),
        ("target.routes", [{"table": f"lake://a/b{n}", "when": "id > 1"} for n in range(200)], "a list of at most 100"),
        ("target.routes", [{"table": f"lake://a/b{n}", "when": LONG} for n in range(20)], "at most 100,000 characters"),
        ("schedule", {"tables": [f"lake://a/{'b' * 1_600}"]}, "parts of at most 200 characters"),
        ("schedule", {"tables": ["lake://a/../../b"]}, "inside the lake"),
    ],
)
def test_what_costs_too_much_is_refused(tmp_path: Path, path: str, value: object, allowed: str) -> None:
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(tmp_path, changed(path, value)), {"KAFKA_BROKERS": "k"})
    assert [problem for problem in failure.value.problems if allowed in problem.allowed], failure.value.problems


def test_a_files_name_need_not_be_text(tmp_path: Path) -> None:
    """What Airflow's processes tell each other must be."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml"))
    path.write_text("name: x")
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(path, {})
    json.dumps(failure.value.facts(), ensure_ascii=False).encode()


def test_a_cluster_gets_no_variable_that_the_file_may_not_name(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "# ${AIRFLOW__CORE__FERNET_KEY}\ndescription: ${KAFKA_B}\nsource: {bootstrap_servers: '${KAFKA_A}'}"
    )
    assert variables_of(file, {"AIRFLOW__CORE__FERNET_KEY": "x", "KAFKA_A": "y", "KAFKA_B": "z"}) == {"KAFKA_A"}


@pytest.mark.parametrize(
    ("section", "fields", "problem"),
    [
        (
            "security",
            {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u"},
            "username: expected nothing: the connection says it; found a value",
        ),
        ("security", {"protocol": "SSL"}, "protocol: expected SASL_SSL or SASL_PLAINTEXT, for a login; found 'SSL'"),
        ("security", {"protocol": "SASL_SSL"}, "mechanism: expected a value, for SASL; found nothing"),
        (
            "registry",
            {"url": "http://r:1", "username": "u"},
            "username: expected nothing: the connection says it; found a value",
        ),
    ],
)
def test_a_connection_is_the_only_login(tmp_path: Path, section: str, fields: dict[str, str], problem: str) -> None:
    good = {"security": {"protocol": "SASL_SSL", "mechanism": "PLAIN"}, "registry": {"url": "http://r:1"}}[section]
    environment = {"KAFKA_BROKERS": "k"}
    load_pipeline(written(tmp_path, changed(f"source.{section}", {**good, "connection": "c"})), environment)
    file = written(tmp_path, changed(f"source.{section}", {**fields, "connection": "c"}))
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(file, environment)
    assert list(map(str, failure.value.problems)) == [f"source.{section}.{problem}"]
    with pytest.raises(PipelineFileError, match="the id of an Airflow connection: letters"):
        load_pipeline(written(tmp_path, changed(f"source.{section}", {**good, "connection": "a b"})), environment)


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("source.limits", "source.limits.records_per_batch_max: expected a whole number; found true"),
        ("maintenance", "maintenance.small_files_max: expected a whole number; found true"),
        ("stale_after_minutes", "stale_after_minutes: expected a number; found true"),
        ("merge_every", "merge_every: expected a whole number; found true"),
    ],
)
def test_true_is_no_number(tmp_path: Path, field: str, allowed: str) -> None:
    inner = {"source.limits": {"records_per_batch_max": True}, "maintenance": {"small_files_max": True}}
    file = written(tmp_path, changed(field, inner.get(field, True)))
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(file, {"KAFKA_BROKERS": "k"})
    assert allowed in list(map(str, failure.value.problems))


def test_a_file_with_another_ending_is_refused_and_not_ignored(tmp_path: Path) -> None:
    written(tmp_path, changed("description", "x"))
    written(tmp_path, changed("description", "y")).rename(tmp_path / "orders.yml")
    written(tmp_path, changed("description", "x"))
    pipelines, errors = load_pipelines(tmp_path, {"KAFKA_BROKERS": "k"})
    assert [pipeline.name for pipeline in pipelines] == ["orders"]
    assert [str(problem) for error in errors for problem in error.problems] == [
        "file: expected the name orders.yaml; found 'orders.yml'"
    ]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("5", "change: expected names that are text, in quotes if they look like something else; found 5"),
        ("true", "change: expected names that are text, in quotes if they look like something else; found true"),
        ("2026-01-01", "found the date 2026-01-01; text stands in quotes: '2026-01-01'"),
    ],
)
def test_a_name_is_text(tmp_path: Path, name: str, problem: str) -> None:
    text = written(tmp_path, changed("description", "x")).read_text()
    with pytest.raises(PipelineFileError) as failure:
        load_pipeline(written(tmp_path, text.replace("change:\n", f"change:\n  {name}: x\n")), {"KAFKA_BROKERS": "k"})
    assert problem in "".join(map(str, failure.value.problems))
