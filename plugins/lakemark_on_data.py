"""The trigger behind `schedule: on_data`: it watches a topic's lag in the triggerer, and holds no worker slot.

This is Airflow's event-driven scheduling: the DAG is scheduled on an asset that this trigger watches, and each event
starts one run. Events that come while a run is active are kept, and become one run after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from include.control.group_lookout import GroupLookout
from include.control.pipeline_watch import PipelineWatch
from include.protocol.data_watch import DataWatch, StartRun
from include.protocol.json_data import JsonObject
from include.settings import Settings

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
_TEXT_MAX = 500  # characters


class OnGroup(BaseEventTrigger):
    """Fires when a pipeline of a group is due, as each one's own file says. The event says how many offsets wait of
    each that is (`records`), and why a person must act (`ill`), where one must."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def serialize(self) -> tuple[str, JsonObject]:
        return f"{__name__}.{type(self).__name__}", {"group": self.group}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        lookout = GroupLookout(Settings.from_environment(), self.group)
        while True:
            try:
                starts = await asyncio.to_thread(lookout.look)
                if starts:
                    ill = {name: start.problem[:_TEXT_MAX] for name, start in starts.items() if start.problem}
                    yield TriggerEvent({"records": {name: one.records for name, one in starts.items()}, "ill": ill})
            except Exception:  # if this loop ended, it would never start a run again
                log.exception("group %s: a look failed", self.group)
            await asyncio.sleep(lookout.pause)


class OnData(BaseEventTrigger):
    """Fires when `records` offsets of a pipeline wait, or any has waited for `seconds`.

    Args:
        version: of the pipeline's file. Another version makes another trigger, which reads the file again.
    """

    def __init__(self, pipeline: str, records: int, seconds: float, version: str) -> None:
        super().__init__()
        self.pipeline, self.records, self.seconds, self.version = pipeline, records, seconds, version

    def serialize(self) -> tuple[str, JsonObject]:
        arguments = ("pipeline", "records", "seconds", "version")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in arguments}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        watch = PipelineWatch(Settings.from_environment(), self.pipeline, DataWatch(self.records, self.seconds))
        while True:
            start = await asyncio.to_thread(watch.look)
            if start is not None:
                yield TriggerEvent(_told(self.pipeline, start))
            await asyncio.sleep(LOOK_SECONDS)


def _told(pipeline: str, start: StartRun) -> JsonObject:
    """The data of the event that triggers the run."""
    return {"pipeline": pipeline, "records": start.records, "waited_seconds": round(start.waited_seconds, 1)}
