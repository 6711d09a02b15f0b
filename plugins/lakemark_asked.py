"""Whom a group's run is asked to serve, as the events of its trigger say."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Self, cast

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowRuntimeError

log = logging.getLogger(__name__)
_TAKEN, _SUSPECTS = "taken_until", "suspects"  # keys in the asset's store


class Asked(NamedTuple):
    """Whom a run is asked to serve.

    Airflow gives a run the events until the first one after the run before. Those that came later, while that run was
    active, it gives to the run after this one, if there ever is one. So a run takes all that no run has taken yet, and
    the asset's store says up to where they were taken.
    """

    records: Mapping[str, int] | None  # that wait, by pipeline; None: the run is for all, as if a person had started it
    suspects: Sequence[str] = ()  # pipelines that have had trouble in runs that gave up, since one has ended well
    ill: Mapping[str, str] = MappingProxyType({})  # why a person must act, by pipeline
    until: datetime | None = None  # of the newest event; None: there is none

    @classmethod
    def of(cls, context: Context, waits: Asset) -> Self:
        store = context["asset_state_store"][waits]
        suspects = store.get(_SUSPECTS) or []
        if context["dag_run"].run_type != "asset_triggered":
            return cls(None, suspects)
        given = [event for of_asset in context["triggering_asset_events"].values() for event in of_asset]
        taken = store.get(_TAKEN)
        since = datetime.fromisoformat(taken) if taken else min((e.timestamp for e in given), default=None)
        try:
            newer = [*context["inlet_events"][waits].after(since.isoformat())] if since else []
        except AirflowRuntimeError as error:  # it shows no event whose run is queued, and that may wait for this run
            log.info("serves all, as Airflow does not say what has come: %s", error)
            return cls(None, suspects)
        newer = [event for event in newer if not taken or event.timestamp > since]
        newer = newer or given  # a run has taken its own events, too; or a clock has gone back since
        again = given if context["ti"].try_number > 1 else []  # what its earlier tries were asked for
        told = [_told_by(event.extra) for event in (*again, *newer)]
        records = {name: n for due in told if due is not None for name, n in due.records.items()}
        ill = {name: why for due in told if due is not None for name, why in due.ill.items()}
        until = max((event.timestamp for event in newer), default=None)
        return cls(None if None in told else records, suspects, ill, until=until)

    def is_done(self, context: Context, waits: Asset) -> None:
        """Its events are taken, and nobody is a suspect any more."""
        store = context["asset_state_store"][waits]
        if self.until is not None:
            store.set(_TAKEN, self.until.isoformat())
        if self.suspects:
            store.set(_SUSPECTS, [])

    @staticmethod
    def gives_up(context: Context, waits: Asset, suspects: Collection[str]) -> None:
        """The run gives up, as the first turns have all failed: those come last the next time, and those that were
        waiting for another system, as most of these would fail as well."""
        store = context["asset_state_store"][waits]
        store.set(_SUSPECTS, sorted({*(store.get(_SUSPECTS) or []), *suspects}))


class _Told(NamedTuple):
    """What an event of the trigger (`lakemark_on_data.OnGroup`) says, by pipeline."""

    records: Mapping[str, int]
    ill: Mapping[str, str]


def _told_by(extra: object) -> _Told | None:
    """None: the event is somebody else's, as Airflow lets anyone send one, or an earlier Lakemark's."""
    match extra:
        case {"payload": {"records": {**records}, "ill": {**ill}}}:
            if all(type(n) is int for n in records.values()) and all(type(text) is str for text in ill.values()):
                return _Told(cast(Mapping[str, int], records), cast(Mapping[str, str], ill))
    return None
