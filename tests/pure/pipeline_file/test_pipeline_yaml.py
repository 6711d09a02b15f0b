"""A pipeline file may be anything: it costs little, says what is wrong with it, and takes no other pipeline with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from include.pipeline_file import load_pipeline, load_pipelines
from include.pipeline_file.yaml_text import read_yaml
from include.protocol.errors import PipelineFileError
from tests.pure.pipeline_file.test_pipeline_file import GOOD, written

LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10 if n else ['x'])}]\n" for n in range(12))


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("name: orders\nsource: &s {a: *s}", "do not contain themselves", "line 2, column 16"),
        ("name: orders\nsource: &s [1, [2, *s]]", "do not contain themselves", "line 2, column 20"),
        (f"name: {'[' * 5_000}{']' * 5_000}", "at most 50 levels", "line 1, column 5"),
        (f"name: {'{a: ' * 100_000}", "at most 50 levels", "line 1"),
        ("\n".join(f"{' ' * n}a:" for n in range(1_000)), "at most 50 levels", "line 51"),
        (LAUGHS, "at most 20,000 values", "line 5"),
        (
            f"a: &a {{{', '.join(f'k{n}: 1' for n in range(500))}}}\nb: &b {{<<: *a}}\nc: [{'*b, ' * 100}]",
            "at most 20,000 values",
            "line",
        ),
        ("name: !!bool maybe", "valid YAML", "not what its tag says"),
        ("name: !!timestamp x", "valid YAML", "not what its tag says"),
        ("name: !!int ''", "valid YAML", "not what its tag says"),
        (f"name: 0x{'f' * 10_000}", "numbers of at most 64", "line 1, column 7"),
        (f"name: 1{':1' * 10_000}", "numbers of at most 64", "line 1, column 7"),
        ("name: orders\nsource: {a: 1}\nname: orders", "every key once", "name once more in line 3, column 1"),
        ("source:\n  filter: a\n  'filter': b", "every key once", "filter once more in line 3, column 3"),
        ("source: {u:p@h: 1, u:p@h: 2}", "every key once", "a key once more in line 1"),
    ],
)
def test_one_bad_file_is_told_of_at_once_and_the_others_run_on(
    tmp_path: Path, text: str, expected: str, found: str
) -> None:
    good, bad = written(tmp_path, GOOD), written(tmp_path, text, "bad")
    began = time.monotonic()
    pipelines, [error] = load_pipelines(tmp_path, {"KAFKA_BROKERS": "k:1"})
    assert time.monotonic() - began < 5
    assert [pipeline.name for pipeline in pipelines] == [good.stem]
    assert expected in error.expected
    assert found in error.found
    assert str(bad) in error.where
    assert "lakemark validate bad" in error.action


def test_aliases_and_merges_mean_what_they_meant() -> None:
    text = """
b: {<<: *a, x: 3}
"""
    with pytest.raises(yaml.YAMLError, match="undefined alias"):
        read_yaml(text)
    text = """
in: {a: &a {<<: &base {x: 1, y: 1}, x: 2}}
b: {<<: *a, z: 3}
c: [*a, *a]
"""
    assert read_yaml(text) == yaml.safe_load(text)
    assert read_yaml(text)["b"] == {"x": 2, "y": 1, "z": 3}
    for text in ("", "# nothing", "a", "[1, 2.5, 2020-01-01, ~, yes]"):
        assert read_yaml(text) == yaml.safe_load(text)


def test_a_key_twice_is_refused_by_validate(tmp_path: Path) -> None:
    text = yaml.safe_dump(GOOD) + "target: {table: lake://silver/others}\n"
    with pytest.raises(PipelineFileError, match="every key once in its section; found target once more in line"):
        load_pipeline(written(tmp_path, text), {"KAFKA_BROKERS": "k:1"})


def test_generated_keys_beside_metadata_that_is_none(tmp_path: Path) -> None:
    data = {**GOOD, "source": {**GOOD["source"], "metadata": "x"}, "change": {"keys": "generated"}}
    with pytest.raises(PipelineFileError, match=r"source\.metadata"):
        load_pipeline(written(tmp_path, data), {"KAFKA_BROKERS": "k:1"})
