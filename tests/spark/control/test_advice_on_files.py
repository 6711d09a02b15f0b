"""Terminal errors of files that a person mends by hand: the suite, the pipeline file, the transform."""

from __future__ import annotations

import json

import pytest

from tests.spark.changes.test_quality import CHEAP, rule, send, with_suite
from tests.spark.changes.test_quality import SCHEMA as COLUMNS
from tests.support.advice import advised, follow
from tests.support.world import World, as_dict


@pytest.mark.slow
def test_a_gate_that_a_batch_does_not_pass(world: World) -> None:
    """QualityGate: the suite is mended by hand, then the command is given."""
    strict = rule(CHEAP["type"], "fail", **CHEAP["kwargs"])
    pipeline = with_suite(world, strict)
    send(world, pipeline, {"id": 1, "price": 500}, {"id": 2})
    done = world.lakemark("run", pipeline.name, "--json")
    error = json.loads(done.stdout)
    assert error["error"] == "QualityGate"
    with_suite(world, again=pipeline)
    [command] = advised(error["action"], pipeline)
    assert world.lakemark(*command).returncode == 0
    assert follow(world, pipeline) == []
    assert sorted(as_dict(world.rows(pipeline))) == [1, 2]


@pytest.mark.slow
def test_files_that_are_not_valid(world: World) -> None:
    """PipelineFileError, SuiteError and TransformError: a file is mended by hand, and `validate` agrees before and
    after."""
    pipeline = with_suite(world, CHEAP)
    send(world, pipeline, {"id": 1})
    suite = world.settings.expectations / "shop.json"
    file = world.settings.pipelines / f"{pipeline.name}.yaml"
    for path, broken, name in (
        (suite, suite.read_text().replace("_between", "_beyond"), "SuiteError"),
        (file, file.read_text().replace("keys:", "kees:"), "PipelineFileError"),
        (file, f'{file.read_text()}\ntransform: {{file: gone.sql, schema: "{COLUMNS}"}}\n', "TransformError"),
    ):
        good = path.read_text()
        path.write_text(broken)
        error = json.loads(world.lakemark("run", pipeline.name, "--json").stdout)
        assert error["error"] == name, error
        assert world.lakemark("validate", pipeline.name).returncode == 1
        for command in advised(error["action"], pipeline):
            world.lakemark(*command)
        path.write_text(good)
        assert world.lakemark("validate", pipeline.name).returncode == 0
    assert follow(world, pipeline) == []
    assert sorted(as_dict(world.rows(pipeline))) == [1]
