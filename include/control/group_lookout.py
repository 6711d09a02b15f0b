"""Watches all pipelines of a group, for one trigger. A file that changes, comes or goes counts within seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from include.control.lag import Lookout
from include.pipeline_file import find_pipeline
from include.pipeline_file.loading import changed_at, groups_in
from include.pipeline_file.schedule import OnData
from include.protocol.data_watch import DataWatch, StartRun
from include.protocol.errors import LakemarkError
from include.settings import Settings

log = logging.getLogger(__name__)
_FILES_SECONDS = 5.0  # between two looks at the files
_LOOKS_PER_SECOND = 150
_TROUBLE_SECONDS = 10.0  # until the next look at a pipeline where one has failed


@dataclass
class _Watched:
    version: int  # of its file
    lookout: Lookout | None = None  # none while its file is not valid
    watch: DataWatch = field(default_factory=lambda: DataWatch(1, 0))
    not_before: float = 0.0


@dataclass
class GroupLookout:
    settings: Settings
    group: str
    _members: dict[str, _Watched] = field(default_factory=dict)
    _files_at: float = float("-inf")

    @property
    def pause(self) -> float:
        """Seconds until the next look: more for a large group, so that it takes no more than some hundredths of a
        core."""
        return max(1.0, len(self._members) / _LOOKS_PER_SECOND)

    def look(self) -> Mapping[str, StartRun]:
        """The pipelines that are due now, by name. What is wrong with one is logged, and holds up no other."""
        now = time.monotonic()
        if now - self._files_at > _FILES_SECONDS:
            self._files_at = now
            self._read_files()
        starts = {name: self._look_at(name, watched, now) for name, watched in self._members.items()}
        return {name: start for name, start in starts.items() if start is not None}

    def _read_files(self) -> None:
        found = {}
        for name in groups_in(self.settings.pipelines).get(self.group, ()):
            version = changed_at(self.settings.pipelines / f"{name}.yaml")
            known = self._members.get(name)
            found[name] = known if known is not None and known.version == version else self._watched(name, version)
        self._members = found

    def _watched(self, name: str, version: int) -> _Watched:
        try:
            pipeline = find_pipeline(name, self.settings.pipelines, self.settings.environment)
        except LakemarkError as error:  # Airflow shows it, as an import error of its DAG file
            log.warning("%s: %s", name, error)
            return _Watched(version)
        if not isinstance(pipeline.schedule, OnData):  # it has changed between the two looks
            return _Watched(-1)
        watch = DataWatch(pipeline.schedule.records, pipeline.schedule.seconds)
        return _Watched(version, Lookout(self.settings, pipeline), watch)

    def _look_at(self, name: str, watched: _Watched, now: float) -> StartRun | None:
        if watched.lookout is None or now < watched.not_before:
            return None
        try:
            start = watched.watch.look(now, watched.lookout.look())
        except LakemarkError as error:
            log.warning("%s: %s", name, error)
        except Exception:  # if this ended the watch over all, none of them would run again
            log.exception("%s: a look failed", name)
        else:
            if start is not None:
                log.info("%s: %s", name, start)
            return start
        watched.not_before = now + _TROUBLE_SECONDS
        return None
