"""Says when a run of one pipeline is due, for triggers, which must never fail: nothing else would start a run."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from include.control.lag import Lookout
from include.pipeline_file import find_pipeline
from include.pipeline_file.schedule import OnData
from include.protocol.data_watch import GROUP_PATIENCE_SECONDS, DataWatch, StartRun
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)
TROUBLE_SECONDS = 10.0  # until the next look if one has failed


@dataclass
class PipelineWatch:
    """Watches one pipeline.

    Args:
        watch: with the thresholds that count; None: those of the pipeline's file, for one in a group.
    """

    settings: Settings
    name: str
    watch: DataWatch | None = None
    may_take_long: bool = True  # as its brokers are waited for: its last look met a problem, or there was none yet
    _lookout: Lookout | None = None  # none until its file is valid
    _not_before: float = 0.0

    def look(self) -> StartRun | None:
        """Whether to start a run now. What is wrong is logged, and looked at again a while later."""
        now = time.monotonic()
        if now < self._not_before:
            return None
        start, self.may_take_long = None, True
        try:
            start = self._look(now)
        except LakemarkError as error:
            log.warning("%s: %s", self.name, error)
        except Exception:  # whatever it is
            log.exception("%s: a look failed", self.name)
        if self.may_take_long:
            self._not_before = time.monotonic() + TROUBLE_SECONDS  # the look may have taken long
        if start is not None:
            log.info("%s: %s", self.name, start)
        return start

    def _look(self, now: float) -> StartRun | None:
        if self._lookout is None:
            pipeline = find_pipeline(self.name, self.settings.pipelines, self.settings.environment)
            if self.watch is None:
                if not isinstance(pipeline.schedule, OnData):  # its file has just changed
                    self.may_take_long = False
                    return None
                schedule = pipeline.schedule
                self.watch = DataWatch(schedule.records, schedule.seconds, GROUP_PATIENCE_SECONDS)
            self._lookout = Lookout(self.settings, pipeline)
        assert self.watch is not None, "it is made with the lookout"
        waiting = self._lookout.look()
        self.may_take_long = waiting.problem is not None
        return self.watch.look(now, waiting)
