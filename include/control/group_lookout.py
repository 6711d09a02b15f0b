"""Watches all pipelines of a group, for one trigger. A file that changes, comes or goes counts within seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from include.control.pipeline_watch import PipelineWatch
from include.pipeline_file.loading import changed_at, groups_in
from include.protocol.data_watch import StartRun
from include.settings import Settings

_FILES_SECONDS = 5.0  # between two looks at the files
_LOOKS_PER_SECOND = 80
_BESIDE = 4  # looks at once that may take long
_Version = tuple[str, int]  # a pipeline's name, and when its file was changed


@dataclass
class GroupLookout:
    settings: Settings
    group: str
    _members: dict[_Version, PipelineWatch] = field(default_factory=dict)
    _files_at: float = float("-inf")
    _beside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_BESIDE, "lakemark-group"))
    _begun: dict[_Version, Future[StartRun | None]] = field(default_factory=dict)  # looks beside

    @property
    def pause(self) -> float:
        """Seconds until the next look: more for a large group, so that it takes no more than some hundredths of a
        core."""
        return max(1.0, len(self._members) / _LOOKS_PER_SECOND)

    def look(self) -> Mapping[str, StartRun]:
        """The pipelines that are due now, by name. What is wrong with one holds up no other."""
        now = time.monotonic()
        if now - self._files_at > _FILES_SECONDS:
            self._files_at = now
            self._read_files()
        starts = {version[0]: self._look_at(version, member) for version, member in self._members.items()}
        return {name: start for name, start in starts.items() if start is not None}

    def _look_at(self, version: _Version, member: PipelineWatch) -> StartRun | None:
        """Nobody waits for a look at a pipeline that may take long."""
        begun = self._begun.pop(version, None)
        if begun is None:
            if not member.may_take_long:
                return member.look()
            begun = self._beside.submit(member.look)
        if begun.done():
            return begun.result()
        self._begun[version] = begun
        return None

    def _read_files(self) -> None:
        folder = self.settings.pipelines
        names = groups_in(folder).get(self.group, ())
        versions = [(name, changed_at(folder / f"{name}.yaml")) for name in names]
        self._members = {one: self._members.get(one) or PipelineWatch(self.settings, one[0]) for one in versions}
        self._begun = {one: look for one, look in self._begun.items() if one in self._members}
