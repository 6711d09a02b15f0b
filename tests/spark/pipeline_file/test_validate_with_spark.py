"""`lakemark validate --spark`: what only Spark knows about a pipeline file."""

from __future__ import annotations

import json

from tests.support.world import World


def test_spark_says_which_field_it_refuses(world: World) -> None:
    topic = world.topic(partitions=1)
    routes = [{"table": "lake://silver/odd_too", "when": "id"}]  # no condition: a number
    pipeline = world.pipeline(
        topic,
        "odd",
        source={"filter": "no_such_function(id) = 1"},
        change={"delete_when": "op = 'd' AND size(name) > 1"},
        target={"routes": routes},
    )
    without = world.lakemark("validate", pipeline.name)
    assert (without.returncode, without.stdout.split(": ")[-1]) == (0, "valid\n")
    done = world.lakemark("validate", pipeline.name, "--spark", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    [facts] = json.loads(done.stdout)
    found = {problem["field"]: problem["found"] for problem in facts["problems"]}
    assert "no_such_function" in found["source.filter"]
    assert "DATATYPE_MISMATCH" in found["change.delete_when"]
    assert found["target.routes.0.when"] == "bigint: 'id'"
    assert len(found) == 3


def test_spark_reads_the_transform(world: World) -> None:
    topic = world.topic(partitions=1)
    schema = "id BIGINT, seq BIGINT, name STRING, op STRING"
    pipeline = world.pipeline(topic, "turned", transform={"file": "turned.sql", "schema": schema})
    world.settings.transforms.mkdir(exist_ok=True)
    file = world.settings.transforms / "turned.sql"
    file.write_text("SELECT id, seq, nmae AS name, op, _lakemark\nFROM changes")
    done = world.lakemark("validate", pipeline.name, "--spark")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "transform.file: expected" in done.stdout
    assert "nmae" in done.stdout
    file.write_text("SELECT id, seq, name, op, _lakemark FROM changes")
    done = world.lakemark("validate", pipeline.name, "--spark")
    assert (done.returncode, done.stdout.split(": ")[-1]) == (0, "valid\n"), done.stderr
