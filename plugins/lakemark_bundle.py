"""The DAG bundle of Lakemark: one small DAG file for each pipeline file, which Airflow parses when that one changes.

Airflow's way is to parse every DAG file again and again, since it cannot know what else it reads. With some hundred
pipelines that takes a core of its own. So the bundle makes a file for each pipeline, and gives it a new time when what
it stands for has changed. With `file_parsing_sort_mode = modified_time`, Airflow then parses it at once, and all others
as seldom as `min_file_process_interval` says. `[dag_processor] dag_bundle_config_list` names the class.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from airflow.configuration import conf
from airflow.dag_processing.bundles.base import BaseDagBundle
from lakemark_early_parses import EarlyParses

from include.pipeline_file.loading import changed_at, clashing, groups_in, pipeline_files
from include.pipeline_file.section import NAME
from include.protocol.errors import TerminalError
from include.settings import Settings

_HOUR = 3600
_HEAD = '"""Airflow DAGs: %s. Made by plugins/lakemark_bundle.py."""\n\n'
_PIPELINE = "from dags.factories.of_file import dags_of_file\n\nglobals().update(dags_of_file({name!a}))\n"
_GROUP = "from dags.factories.of_file import dags_of_group\n\nglobals().update(dags_of_group({name!a}))\n"
_WATCH = "from dags.lakemark_watch import build_now\n\ndag = build_now()\n"
_ERRORS = "from dags.lakemark_pipeline_errors import verify_others\n\nverify_others()\n"


class DagFile(NamedTuple):
    text: str
    version: str  # another one if what the file stands for has changed


def is_configured() -> bool:
    """Whether this Airflow has the bundle. If so, DAG files that would make the same DAGs make none."""
    return f'"{__name__}.' in conf.get("dag_processor", "dag_bundle_config_list")


class PipelineBundle(BaseDagBundle):
    """Makes DAG files for all files in the folder of pipelines."""

    def __init__(self, **arguments: str | None) -> None:
        self._seen: Mapping[str, DagFile] = {}  # at the last refresh
        self._again: Mapping[str, float] = {}  # when what has changed is parsed once more
        self._early = EarlyParses()
        self._times: Mapping[str, int] | None = None  # of the pipeline files' changes
        self._files: Mapping[str, DagFile] = {}  # for them
        super().__init__(**arguments)

    @property
    def path(self) -> Path:
        return self.base_dir

    @property
    def refresh_interval(self) -> int:
        """How old, in seconds, the last refresh may be. The DAG processor asks every five (by default), and a refresh
        costs it queries of all DAGs. So there is one when something has changed."""
        try:
            has_changed = self._due_again() or self._seen != self._wanted() or self._early.are_due()
        except Exception:  # whatever it is, the DAG processor would end; a refresh meets it, too, and it logs that
            has_changed = True
        return 0 if has_changed else _HOUR

    @refresh_interval.setter
    def refresh_interval(self, _: int) -> None:
        """Airflow's class sets it."""

    def get_current_version(self) -> None:
        return None  # there is one only: of the pipeline files as they are now

    def initialize(self) -> None:
        """Makes what is missing, for a worker on a machine without a DAG processor. Each task calls it. So it does not
        read the pipeline files where that has been done since they changed."""
        with suppress(TerminalError):  # the task itself meets it, too
            times = _changes_in(Settings.from_environment().pipelines)
            if self._made_for() != str(times):
                with self.lock():
                    for name, file in self._wanted().items():
                        if not (self.path / name).exists():
                            self._write(name, file)
                    self._made_for_file.write_text(str(times))
        super().initialize()

    def refresh(self) -> None:
        """Makes and removes DAG files, and gives a new time to those that stand for something else now."""
        with self.lock():
            wanted = self._wanted()
            changed = {name for name, file in wanted.items() if self._seen.get(name) != file}
            # A parse that began before a change may end after it, and Airflow does not keep what it parses soon after
            # it has kept another DAG. So what has changed is parsed once more.
            due_again = self._due_again()
            for name in changed | (due_again & wanted.keys()):
                self._write(name, wanted[name])
            for path in self.path.glob("**/*.py"):
                if str(path.relative_to(self.path)) not in wanted:
                    path.unlink()
            waiting = {name: at for name, at in self._again.items() if name not in due_again}
            soon = time.monotonic() + conf.getint("core", "min_serialized_dag_update_interval")
            self._again = {**waiting, **dict.fromkeys(changed & self._seen.keys(), soon)}
            self._seen = wanted
            if self._made_for() != str(self._times):
                self._made_for_file.write_text(str(self._times))
        self._early.ask()

    def _due_again(self) -> set[str]:
        return {name for name, at in self._again.items() if at <= time.monotonic()}

    def _wanted(self) -> Mapping[str, DagFile]:
        settings = Settings.from_environment()
        alerts = "" if settings.alerts is None else str(changed_at(settings.alerts))
        try:
            times = _changes_in(settings.pipelines)
            if times != self._times:
                self._times, self._files = times, dag_files(settings.pipelines, times)
        except TerminalError as error:  # there is no folder. It may come back, so no DAG goes away
            return {**self._seen, **_errors(f"{alerts} {error}")}
        return {**self._files, **_errors(alerts)}

    @property
    def _made_for_file(self) -> Path:
        return self.path / "made_for.txt"

    def _made_for(self) -> str | None:
        return self._made_for_file.read_text() if self._made_for_file.exists() else None

    def _write(self, name: str, file: DagFile) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(file.text)
        draft.replace(path)


def _changes_in(folder: Path) -> Mapping[str, int]:
    """When each pipeline file was changed, by its name. Raises TerminalError: there is no such folder."""
    return {path.name: changed_at(path) for path in pipeline_files(folder)}


def dag_files(folder: Path, times: Mapping[str, int]) -> Mapping[str, DagFile]:
    """The DAG files for a folder of pipeline files, by their paths in the bundle. Args: times: of the changes there."""
    clashes = {f"{name}.yaml": {f"{other}.yaml" for other in others} for name, others in clashing(folder).items()}
    found = {}
    for name, changed in times.items():
        # A file whose tables are not apart from another one's is not valid, and may become so when that one changes.
        beside = {other: times.get(other) for other in sorted(clashes.get(name, ()))}
        found[_path_for(name)] = DagFile(_HEAD % ascii(name) + _PIPELINE.format(name=name), f"{changed} {beside}")
    for group, members in groups_in(folder).items():
        found[f"groups/{group}.py"] = DagFile(_HEAD % group + _GROUP.format(name=group), str(members))
    return {**found, "lakemark_watch.py": DagFile(_HEAD % "lakemark_watch" + _WATCH, str(times))}


def _errors(version: str) -> Mapping[str, DagFile]:
    return {"lakemark_pipeline_errors.py": DagFile(_HEAD % "none" + _ERRORS, version)}


def _path_for(name: str) -> str:
    """The path of a pipeline file's DAG file. One that has no valid name gets another, and will show as an error."""
    stem, _, ending = name.rpartition(".")
    is_valid = ending == "yaml" and re.fullmatch(NAME, stem)
    return f"pipelines/{stem if is_valid else f'refused_{crc32(os.fsencode(name))}'}.py"
