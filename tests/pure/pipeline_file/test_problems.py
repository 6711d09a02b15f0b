"""All that is wrong with a pipeline file is told at once, each on its own line, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from include.pipeline_file import Pipeline, load_pipeline
from include.pipeline_file.in_words import IN_WORDS
from include.protocol.errors import PipelineFileError, error_from_facts
from tests.pure.pipeline_file.test_pipeline_file import changed, written


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
