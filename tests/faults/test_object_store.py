"""A lake on an object store that refuses, is away, or allows no more than it must: each is one error in words, nothing
is lost, and the login's secret is found nowhere. A real S3-compatible server, behind a proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from configparser import ConfigParser

import pytest

from include.audit.auditor import audit
from include.installation.object_store import BUCKET
from include.installation.stack import Stack
from include.pipeline_file import Pipeline
from include.protocol.errors import OutcomeUnknownError, StoreRefuses
from include.settings import PROJECT_ROOT
from tests.conftest import lossy_stack, world_in
from tests.support.least_policy import policy_of_docs
from tests.support.lossy_store import LossyStore
from tests.support.stopped import resumed, stopped
from tests.support.world import World, as_dict, changes, newest_by_key

pytestmark = pytest.mark.slow
DOCS = PROJECT_ROOT / "docs" / "object-store.md"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, LossyStore]]:
    with lossy_stack(tmp_path_factory.mktemp("services")) as services:
        yield services


@pytest.fixture
def world(behind: tuple[Stack, LossyStore], tmp_path_factory: pytest.TempPathFactory) -> World:
    return world_in(tmp_path_factory.mktemp("world"), behind[0], "s3")


@pytest.fixture
def store(behind: tuple[Stack, LossyStore]) -> Iterator[LossyStore]:
    yield behind[1]
    behind[1].is_good()


def planned(world: World) -> Pipeline:
    """A pipeline with one batch in its table, and another one planned."""
    topic = world.topic(partitions=1)
    pipeline = world.pipeline(topic)
    world.produce(topic, changes(range(30), 1), 1)
    world.run_batch(pipeline)
    world.produce(topic, changes(range(20, 50), 2), 1)
    world.coordinator(pipeline).plan()
    return pipeline


def assert_right(world: World, pipeline: Pipeline) -> None:
    done = world.lakemark("run", pipeline.name, "--until-caught-up")
    assert done.returncode == 0, done.stderr
    assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent)
    assert audit(world.settings, pipeline, deep=True).findings == ()


@pytest.mark.parametrize("engine", ["lane", "spark"])
@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (400, "ExpiredToken"), (404, "NoSuchBucket"), (503, "SlowDown")]
)
def test_i6_a_store_that_refuses_in_the_middle_of_an_attempt_loses_nothing(
    world: World, store: LossyStore, zombies: list, engine: str, status: int, code: str
) -> None:
    pipeline = planned(world)
    fault = {"LAKEMARK_TEST_FAULT": "attempt.before_merge=stop", "LAKEMARK_MERGE_ENGINE": engine}
    process = world.job(pipeline, world.key(pipeline, 1), **fault)
    zombies.append(process)
    job = stopped(process)
    store.refusal = status, code
    exit_code, said = resumed(process, job)
    is_refusal = code != "SlowDown"
    assert exit_code == (StoreRefuses if is_refusal else OutcomeUnknownError).exit_code, said
    assert "the lake's store" in said
    again = world.lakemark("run", pipeline.name, "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["error"] == ("StoreRefuses" if is_refusal else "StoreAway"), again.stdout
    store.is_good()
    assert_right(world, pipeline)


def test_i6_a_store_that_nobody_reaches_stops_every_command_within_its_limit(world: World, store: LossyStore) -> None:
    pipeline = planned(world)
    store.breaks("", "never arrives", 1_000_000)
    for command in (["run", pipeline.name], ["status", pipeline.name], ["audit", pipeline.name], ["validate"]):
        done = world.lakemark(*command, timeout=240)
        assert done.returncode == 1, (command, done.stdout)
        assert "does not answer" in done.stderr + done.stdout, (command, done.stderr)
    store.is_good()
    assert_right(world, pipeline)


def test_the_least_policy_of_the_docs_suffices(world: World, store: LossyStore) -> None:
    prefix = str(world.settings.lake).removeprefix(f"s3://{BUCKET}/")
    store.policy = policy_of_docs(DOCS, BUCKET, prefix)
    topic = world.topic(partitions=1)
    name = "least"
    beside = {"archive": "lake://bronze/least", "quality": {"suite": "least"}}
    world.write_suite(name, [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "name"}}])
    pipeline = world.pipeline(topic, name, target={"history_table": "lake://silver/least_history"}, **beside)
    world.produce(topic, [*changes(range(30), 1), b"{"], 1)
    commands = [
        *(["validate"], ["run", name], ["run", name], ["status", name], ["explain", name], ["maintain", name]),
        *(["audit", name, "--deep"], ["quarantine", "list", name], ["quality", "show", name]),
        *(["quarantine", "discard", name, "--reason", "test"], ["reset", name, "--reason", "test"]),
        *(["ledger", "rebuild", name], ["ledger", "show", name], ["plan", name, "--json"]),
    ]
    for command in commands:
        world.produce(topic, changes(range(5, 35), 2), 1)
        by = "spark" if command[0] == "run" else "auto"
        done = world.lakemark(*command, LAKEMARK_MERGE_ENGINE=by)
        assert done.returncode == 0 or "is sound" in done.stderr, (command, done.stdout, done.stderr)
    assert {action for action, _ in store.not_allowed} <= {"s3:GetBucketVersioning"} | _ABOVE(store, prefix)
    store.is_good()
    assert as_dict(world.rows(pipeline))


def _ABOVE(store: LossyStore, prefix: str) -> set[str]:
    """A mark above the lake is asked for, and nobody minds if it may not be read."""
    inside = f"arn:aws:s3:::{BUCKET}/{prefix}"
    return {action for action, resource in store.not_allowed if not resource.startswith(inside)} & {"s3:GetObject"}


def test_a_planted_secret_is_found_nowhere(world: World, store: LossyStore, behind: tuple[Stack, LossyStore]) -> None:
    stack, login = behind[0], ConfigParser()
    login.read(stack.store.login)
    secret = login["default"]["aws_secret_access_key"]
    pipeline = planned(world)
    said = [world.lakemark(*command) for command in (["run", pipeline.name], ["status"], ["validate"], ["explain"])]
    own = {"LAKEMARK_SPARK_REMOTE": "", "LAKEMARK_SPARK_MASTER": "local[2]", "LAKEMARK_MERGE_ENGINE": "spark"}
    world.produce(pipeline.source.topics[0], changes(range(60), 3), 1)
    said.append(world.lakemark("run", pipeline.name, **own))
    wrong = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": f"not-{secret}"}
    refused = world.lakemark("status", pipeline.name, **wrong)
    assert "the lake's store refuses a request" in refused.stderr
    with world.session() as spark:
        settings = [row.asDict() for row in spark.sql("SET -v").collect()] + [*map(str, spark.sql("SET").collect())]
    texts = [text for done in (*said, refused) for text in (done.stdout, done.stderr)] + [str(settings)]
    assert [text for text in texts if secret in text] == []
    home = stack.settings.home
    files = [file for file in home.rglob("*") if file.is_file()]
    kept = {stack.store.login, home / "s3" / "s3proxy.conf"}
    assert [file for file in files if secret.encode() in file.read_bytes() and file not in kept] == []
    assert len(files) > 50
