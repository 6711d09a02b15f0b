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


@dataclass
class _Member:
    """A pipeline as one version of its file says. With another version it is watched anew."""

    watch: PipelineWatch
    begun: Future[StartRun | None] | None = None  # a look beside


@dataclass
class GroupLookout:
    settings: Settings
    group: str
    _members: dict[tuple[str, int], _Member] = field(default_factory=dict)  # by name, and their files' changes
    _files_at: float = float("-inf")
    _beside: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_BESIDE, "lakemark-group"))

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
        starts = {member.watch.name: self._look_at(member) for member in self._members.values()}
        return {name: start for name, start in starts.items() if start is not None}

    def _look_at(self, member: _Member) -> StartRun | None:
        """Nobody waits for a look at a pipeline that may take long."""
        begun, member.begun = member.begun, None
        if begun is None:
            if not member.watch.may_take_long:
                return member.watch.look()
            begun = self._beside.submit(member.watch.look)
        if begun.done():
            return begun.result()
        member.begun = begun
        return None

    def _read_files(self) -> None:
        folder = self.settings.pipelines
        names = groups_in(folder).get(self.group, ())
        versions = [(name, changed_at(folder / f"{name}.yaml")) for name in names]
        self._members = {
            one: self._members.get(one) or _Member(PipelineWatch(self.settings, one[0])) for one in versions
        }
