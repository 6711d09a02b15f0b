"""Whom a group's run serves. A context stands in for Airflow's; `tests/installation/test_group.py` has the real one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from airflow.dag_processing.dagbag import DagBag  # noqa: F401, puts plugins on the path
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from lakemark_asked import Asked

WAITS = Asset("waits", "lakemark-waiting://group/g")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Airflow:
    """The events of an asset, and its store."""

    def __init__(self) -> None:
        self.events: list[SimpleNamespace] = []
        self.store: dict[str, Any] = {}

    def event(self, **payload: int) -> SimpleNamespace:
        at = NOON + timedelta(seconds=len(self.events))
        self.events.append(SimpleNamespace(timestamp=at, extra={"payload": {"records": payload, "ill": {}}}))
        return self.events[-1]

    def after(self, time: str) -> list[SimpleNamespace]:
        """As Airflow has it: from that moment on."""
        return [event for event in self.events if event.timestamp >= datetime.fromisoformat(time)]

    def set(self, key: str, value: Any) -> None:
        self.store[key] = value

    def run(self, given: Sequence[SimpleNamespace], try_number: int = 1, run_type: str = "asset_triggered") -> Any:
        return {
            "dag_run": SimpleNamespace(run_type=run_type),
            "ti": SimpleNamespace(try_number=try_number),
            "triggering_asset_events": {WAITS: given} if given else {},
            "asset_state_store": {WAITS: SimpleNamespace(get=self.store.get, set=self.set)},
            "inlet_events": {WAITS: self},
        }


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


def test_a_run_serves_all_that_no_run_has_served_yet_whatever_airflow_gives_it(airflow: Airflow) -> None:
    first = airflow.event(a=3)
    begun = airflow.run([first])
    asked = Asked.of(begun, WAITS)
    assert asked.records == {"a": 3}
    asked.is_done(begun, WAITS)
    second, third = airflow.event(b=1), airflow.event(c=2, b=4)
    begun = airflow.run([second])  # the third one came while the first run was active
    asked = Asked.of(begun, WAITS)
    assert asked.records == {"b": 4, "c": 2}
    asked.is_done(begun, WAITS)
    fourth = airflow.event(d=1)
    assert Asked.of(airflow.run([third, fourth]), WAITS).records == {"d": 1}


def test_a_first_run_serves_what_came_after_its_own_events(airflow: Airflow) -> None:
    airflow.event(old=1)
    first = airflow.event(a=1)
    airflow.event(b=1)
    assert Asked.of(airflow.run([first]), WAITS).records == {"a": 1, "b": 1}


def test_another_try_serves_what_the_run_was_started_for_and_what_has_come_since(airflow: Airflow) -> None:
    first = airflow.event(a=1)
    begun = airflow.run([first])
    Asked.of(begun, WAITS).is_done(begun, WAITS)
    airflow.event(b=1)
    assert Asked.of(airflow.run([first], try_number=2), WAITS).records == {"a": 1, "b": 1}


def test_a_run_serves_its_own_events_also_if_the_clock_has_gone_back_since_the_last_ones_were_taken(
    airflow: Airflow,
) -> None:
    airflow.store["taken_until"] = (NOON + timedelta(days=1)).isoformat()
    first, second = airflow.event(a=1), airflow.event(b=1)
    begun = airflow.run([first])
    asked = Asked.of(begun, WAITS)
    assert asked.records == {"a": 1}
    asked.is_done(begun, WAITS)
    third = airflow.event(c=1)
    assert Asked.of(airflow.run([second, third]), WAITS).records == {"b": 1, "c": 1}


def test_who_has_had_trouble_in_runs_that_gave_up_is_known_until_one_ends_well(airflow: Airflow) -> None:
    begun = airflow.run([airflow.event(a=1, b=1)])
    Asked.gives_up(begun, WAITS, ["b"])
    Asked.gives_up(begun, WAITS, ["a"])
    asked = Asked.of(begun, WAITS)
    assert asked.suspects == ["a", "b"]
    asked.is_done(begun, WAITS)
    assert Asked.of(begun, WAITS).suspects == []
    assert Asked.of(airflow.run([], run_type="manual"), WAITS).suspects == []


@pytest.mark.parametrize(
    "extra", [{}, None, {"payload": None}, {"payload": {"records": {"a": "many"}, "ill": {}}}, {"payload": {"a": 3}}]
)
def test_an_event_that_a_person_has_made_is_for_all_and_is_taken_like_any_other(airflow: Airflow, extra: Any) -> None:
    airflow.event(a=3)
    by_hand = airflow.event()
    by_hand.extra = extra
    begun = airflow.run([airflow.events[0]])
    asked = Asked.of(begun, WAITS)
    assert (asked.records, asked.until) == (None, by_hand.timestamp)
    asked.is_done(begun, WAITS)
    assert Asked.of(airflow.run([airflow.event(b=1)]), WAITS).records == {"b": 1}


def test_a_run_is_for_all_if_airflow_does_not_say_what_has_come(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers with an error 500 if the run of one of these events is queued, which may be behind this one."""
    first = airflow.event(a=3)
    begun = airflow.run([first], try_number=2)

    def refused(_: str) -> NoReturn:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 500}))

    monkeypatch.setattr(airflow, "after", refused)
    asked = Asked.of(begun, WAITS)
    assert (asked.records, asked.until) == (None, None)


def test_a_run_knows_for_whom_a_person_must_act(airflow: Airflow) -> None:
    event = airflow.event(a=3, b=0)
    event.extra["payload"]["ill"] = {"b": "there is no topic"}
    asked = Asked.of(airflow.run([event]), WAITS)
    assert (asked.records, asked.ill) == ({"a": 3, "b": 0}, {"b": "there is no topic"})


def test_a_run_that_a_person_starts_is_for_all(airflow: Airflow) -> None:
    airflow.event(a=1)
    assert Asked.of(airflow.run([], run_type="manual"), WAITS).records is None
