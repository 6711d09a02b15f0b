"""`lakemark status`: what it says when Kafka is away, and when it fails."""

from __future__ import annotations

import shutil
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

import include.monitoring.status
from include.cli.status import _status_lines
from include.control.coordinator import Coordinator
from include.control.quarantine import Quarantine
from include.lake.ledger import Ledger
from include.monitoring.status import status
from include.protocol.errors import LakemarkError, RetryableError, StoreAway
from include.protocol.ledger_events import AttemptEnded, AttemptStarted
from include.protocol.ledger_state import LedgerState
from tests.support.batches import source
from tests.support.tables_before import ask, with_tables


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """A pipeline with a planned batch."""
    ask(monkeypatch, source({("t", 0): (0, 10)}))
    monkeypatch.setattr(include.monitoring.status, "verify_answers", lambda *_: None)
    monkeypatch.setattr(include.monitoring.status.Lag, "of", lambda *_: None)
    coordinator = with_tables(tmp_path)
    coordinator.plan()
    return coordinator


def test_an_attempt_that_runs_is_no_problem(planned: Coordinator) -> None:
    started = AttemptStarted(1, 0, "a", host="host", started_by="airflow run")
    planned.ledger.append(lambda state: [started])
    facts = status(planned.settings, planned.pipeline)
    assert facts["problem"] is None
    assert "of airflow run on host) has not ended" in facts["running"]
    planned.ledger.append(lambda state: [AttemptEnded(1, 0, "a", "SchemaChanged", {}, "the columns changed")])
    facts = status(planned.settings, planned.pipeline)
    assert (facts["running"], facts["problem"]) == (None, "the columns changed")


def test_of_a_ledger_that_cannot_be_read_it_does_not_say_that_nothing_is_committed(planned: Coordinator) -> None:
    shutil.rmtree(f"{planned.tables.ledger}/_delta_log")
    facts = status(planned.settings, planned.pipeline)
    assert facts["committed_through"] is None
    assert "lakemark ledger rebuild" in facts["problem"]
    assert facts["lag_records"] is None
    assert next(iter(_status_lines(facts))) == f"{planned.pipeline.name}: its ledger cannot be read"


def test_a_lake_that_is_away_is_waited_for_once(planned: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Ledger] = []

    def away(ledger: Ledger) -> LedgerState:
        asked.append(ledger)
        raise StoreAway(what="the store does not answer", where="", expected="", found="silence", action="")

    monkeypatch.setattr(Ledger, "state", away)
    monkeypatch.setattr(Quarantine, "summary", lambda self: pytest.fail("it is away"))
    known: dict[Hashable, LakemarkError] = {}
    for _ in range(3):
        facts = status(planned.settings, planned.pipeline, known)
        assert "the store does not answer" in facts["problem"]
    assert len(asked) == 1


def test_brokers_that_are_away_are_waited_for_once(planned: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def away(source: Any, seconds: float) -> None:
        asked.append(seconds)
        raise RetryableError(what="Kafka did not answer", where="", expected="", found="silence", action="")

    monkeypatch.setattr(include.monitoring.status, "verify_answers", away)
    known: dict[Hashable, LakemarkError] = {}
    for _ in range(3):
        facts = status(planned.settings, planned.pipeline, known)
        assert facts["kafka"] == "Kafka did not answer: silence"
        assert "Kafka did not answer" in facts["problem"]
    assert asked == [2.0]
