"""A job that does whole runs of several pipelines, in one session."""

from __future__ import annotations

import pytest

from include.jobs.drain import Drain, Ended
from include.jobs.member_worker import MemberWorker
from include.pipeline_file import Pipeline
from include.protocol import draining
from include.protocol.draining import Due
from include.protocol.errors import TerminalError
from tests.support.world import World, as_dict, changes, newest_by_key


def waiting(world: World, name: str, **sections: object) -> Pipeline:
    """A pipeline for which three batches wait."""
    pipeline = world.pipeline(world.topic(), name, source={"limits": {"records_per_batch_max": 40}}, **sections)
    world.produce(pipeline.source.topics[0], changes(range(100), 1))
    return pipeline


def drained(world: World, pipelines: list[Pipeline], variables: dict[str, str]) -> list[Ended]:
    drain = Drain(
        start=lambda: MemberWorker(world.settings, "test"),
        variables=lambda name: variables,
        listen=lambda name, fact: None,
        log=lambda name, line: print(name, line),
    )
    return sorted(drain.run([Due(n, p.name) for n, p in enumerate(pipelines)]), key=lambda ended: ended.member)


def test_one_worker_does_one_run_after_the_other_whatever_befalls_a_member(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one session, which a turn that fails or that brings code of its own does not spoil for the next."""
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
