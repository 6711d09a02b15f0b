"""A job that does whole runs of several pipelines, in one session."""

from __future__ import annotations

import pytest

from include.jobs.drain import Drain, Ended
from include.jobs.member_worker import MemberWorker
from include.pipeline_file import Pipeline
from include.protocol import draining
from include.protocol.draining import Due
from include.protocol.errors import RetryableError, TerminalError
from tests.support.silent_server import silent_server
from tests.support.world import World, as_dict, changes, newest_by_key


def waiting(world: World, name: str, **sections: object) -> Pipeline:
    """A pipeline for which three batches wait."""
    pipeline = world.pipeline(world.topic(), name, source={"limits": {"records_per_batch_max": 40}}, **sections)
    world.produce(pipeline.source.topics[0], changes(range(100), 1))
    return pipeline


def drained(world: World, pipelines: list[Pipeline], variables: dict[str, str]) -> list[Ended]:
    drain = Drain(
        start=lambda: MemberWorker(world.settings, "test"),
        has_code={pipeline.name: pipeline.brings_code for pipeline in pipelines}.__getitem__,
        variables=lambda name: variables,
        listen=lambda name, fact: None,
        log=lambda name, line: print(name, line),
    )
    return sorted(drain.run([Due(n, p.name) for n, p in enumerate(pipelines)]), key=lambda ended: ended.member)


def test_one_worker_does_one_run_after_the_other_whatever_befalls_a_member(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one session, which a turn that fails does not spoil for the next."""
    monkeypatch.setattr(draining, "WORKERS", 1)
    monkeypatch.setattr(draining, "SLOW_SECONDS", 60.0)
    ill = world.pipeline("no-such-topic", "m_1_ill")
    well = [waiting(world, name) for name in ("m_0", "m_2", "m_3")]
    ended = drained(world, [well[0], ill, *well[1:]], {"OF_A_LOGIN": "secret"})
    assert [(one.member, len(one.results), type(one.error)) for one in ended] == [
        ("m_0", 3, type(None)),
        ("m_1_ill", 0, TerminalError),
        ("m_2", 3, type(None)),
        ("m_3", 3, type(None)),
    ]
    for pipeline in well:
        assert as_dict(world.rows(pipeline)) == newest_by_key(world.sent_to(pipeline))
        assert [record.attempts[0].started_by for record in world.coordinator(pipeline).ledger.state().batches] == [
            "test"
        ] * 3


def test_members_that_wait_for_their_registries_hold_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "WORKERS", 1)
    monkeypatch.setattr(draining, "SLOW_SECONDS", 60.0)
    monkeypatch.setattr(draining, "SILENCE_SECONDS", 4.0)
    listens, address = silent_server()
    registry = {"format": "avro", "registry": {"url": f"http://{address}"}}
    silent = [world.pipeline(world.topic(), f"w_{n}", source=registry) for n in range(2)]
    for pipeline in silent:
        world.produce(pipeline.source.topics[0], [b"\0\0\0\0\1abc"])
    ended = drained(world, [*silent, waiting(world, "w_well")], {})
    assert [(one.member, len(one.results), type(one.error)) for one in ended] == [
        ("w_0", 0, RetryableError),
        ("w_1", 0, RetryableError),
        ("w_well", 3, type(None)),
    ]
    assert all(f"it waits for the schema registry http://{address}" in str(one.error) for one in ended[:2])
    listens.close()


_TRANSFORM = """
import sys
sys.path.insert(0, {folder!r})
import helpers
from pyspark.sql import functions as F

def transform(changes, references):
    return changes.withColumn("name", F.lit(helpers.TAG))
"""


def test_code_that_a_member_brings_is_met_by_no_other_member(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transform imports a module of the same name, which a process keeps."""
    monkeypatch.setattr(draining, "WORKERS", 1)
    monkeypatch.setattr(draining, "SLOW_SECONDS", 60.0)
    world.settings.transforms.mkdir(exist_ok=True)
    pipelines = []
    for name in ("c_0", "c_1"):
        folder = world.settings.transforms / name
        folder.mkdir()
        (folder / "helpers.py").write_text(f"TAG = {name!r}\n")
        (world.settings.transforms / f"{name}.py").write_text(_TRANSFORM.format(folder=str(folder)))
        schema = "id BIGINT, seq BIGINT, name STRING, op STRING"
        pipelines.append(waiting(world, name, transform={"file": f"{name}.py", "schema": schema}))
    assert [one.error for one in drained(world, pipelines, {})] == [None, None]
    for pipeline in pipelines:
        assert {row["name"] for row in world.rows(pipeline)} == {pipeline.name}
