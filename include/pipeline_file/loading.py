"""Finds, reads and checks pipeline files. An error names file, field, what is allowed there and what was found."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import yaml

from include.pipeline_file.apart import Place, clash, clashes, places_in
from include.pipeline_file.checking import checked
from include.pipeline_file.in_words import IN_WORDS, shown, told
from include.pipeline_file.pipeline import Pipeline
from include.pipeline_file.section import LANDING, NAME
from include.pipeline_file.users_file import NotRead, read_users_file
from include.pipeline_file.variables import Written
from include.pipeline_file.yaml_errors import yaml_problem
from include.pipeline_file.yaml_text import NotTaken, read_yaml
from include.protocol.errors import PipelineFileError, Problem, TerminalError


class _Skim(NamedTuple):
    """What is read of a file without a check of it."""

    places: Sequence[Place] = ()
    group: str | None = None


def load_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Reads and checks one pipeline file.

    Args:
        environment: what stands for `${NAME}` where the file may name variables.

    Raises:
        PipelineFileError: names every problem of the file, with field, what is allowed there and what was found. It
            shows the file as it is written, and never the value of a variable.
    """
    try:
        pipeline, problems = _loaded(path, environment)
    except Exception as error:  # whatever a file holds, it must not take the others with it
        found = f"{type(error).__name__}, which is a defect of Lakemark: please report it, with the file"
        pipeline, problems = None, [Problem("file", "a pipeline file", found)]
    if problems or pipeline is None:
        raise invalid(path, problems)  # without a cause: a traceback would show the checked values
    return pipeline


def _loaded(path: Path, environment: Mapping[str, str]) -> tuple[Pipeline | None, list[Problem]]:
    if path.suffix != ".yaml":
        return None, [Problem("file", f"the name {path.stem}.yaml", shown(path.name))]
    try:
        data = read_yaml(read_users_file(path, path.parent))
    except FileNotFoundError:
        return None, [Problem("file", "a file", "none")]
    except NotRead as error:
        return None, [Problem("file", error.allowed, error.found)]
    except yaml.YAMLError as error:
        allowed = error.allowed if isinstance(error, NotTaken) else "valid YAML"
        return None, [Problem("file", allowed, yaml_problem(error))]
    if not isinstance(data, dict):
        return None, [Problem("file", "a section with name, source, change, target", shown(data))]
    pipeline, problems = checked(data, environment)
    name = data.get("name")
    if isinstance(name, str) and name.strip() != path.stem:
        problems = [_misnamed(path, name), *(problem for problem in problems if problem.field != "name")]
    return pipeline, problems


def _misnamed(path: Path, name: str) -> Problem:
    if re.fullmatch(NAME, path.stem):
        return Problem("name", f"{path.stem}, since the file's name is {path.name}", shown(name))
    return Problem("file", f"a file NAME.yaml, where NAME is {IN_WORDS[NAME]}", shown(path.name))


def pipeline_files(folder: Path, name: str = "*") -> list[Path]:
    """The files of the folder, or the one with that name. Raises TerminalError: there is no such folder."""
    if not folder.is_dir():
        raise TerminalError(
            what="there is no folder of pipeline files",
            where="the environment variable LAKEMARK_PIPELINES",
            expected="a folder",
            found=str(folder),
            action="make the folder, or set the variable where Airflow and the command get their environment",
        )
    return sorted((*folder.glob(f"{name}.yaml"), *folder.glob(f"{name}.yml")))  # the latter is refused, not ignored


def load_pipelines(
    folder: Path, environment: Mapping[str, str], name: str = "*"
) -> tuple[list[Pipeline], list[PipelineFileError]]:
    """Reads every file of the folder, or the one with that name. Returns the valid pipelines, and the errors of the
    others.

    If the tables of pipelines are not apart, all of these pipelines are invalid: each would harm the tables of the
    others.
    """
    pipelines, errors = [], []
    others = clashing(folder)
    for path in pipeline_files(folder, name):
        try:
            pipelines.append(load_apart(path, environment, others))
        except PipelineFileError as error:
            errors.append(error)
    return pipelines, errors


def load_apart(path: Path, environment: Mapping[str, str], others: Mapping[str, set[str]] | None = None) -> Pipeline:
    """Reads and checks one file.

    Args:
        others: what is `clashing` in its folder, if the caller knows.

    Raises:
        PipelineFileError: it is not valid, or its tables are not apart from another pipeline's.
    """
    pipeline = load_pipeline(path, environment)
    _verify_apart(pipeline, path, clashing(path.parent) if others is None else others, environment)
    return pipeline


def find_pipeline(name: str, folder: Path, environment: Mapping[str, str]) -> Pipeline:
    """The pipeline with that name, or the landing of one (`NAME__landing`).

    Raises:
        PipelineFileError: the file is not valid, or its tables are not apart from another pipeline's; or there is no
            such file, with the nearest names.
    """
    if name.endswith(LANDING):
        pipeline = find_pipeline(name.removesuffix(LANDING), folder, environment)
        if pipeline.landing is None:
            problem = Problem("merge_every", "a number: only such a pipeline has a landing", "nothing")
            raise invalid(folder / f"{pipeline.name}.yaml", [problem])
        return pipeline.landing
    path = folder / f"{name}.yaml"
    if not re.fullmatch(NAME, name) or not path.exists():
        names = [file.stem for file in pipeline_files(folder)]
        if name in names:
            raise invalid(path, [_misnamed(path, name)])
        near = difflib.get_close_matches(name, names) or names
        raise PipelineFileError(
            what="there is no such pipeline",
            where=str(path),
            expected=f"one of the pipelines in {folder}: {', '.join(near) or 'none yet'}",
            found=name,
            action="use one of these names, or write that file (docs/pipeline-file.md)",
        )
    return load_apart(path, environment)


def clashing(folder: Path) -> Mapping[str, set[str]]:
    """The files whose tables may not be apart, by name. It only skims them, so that a job, which needs one pipeline,
    does not pay for a check of all files."""
    return clashes({name: skim.places for name, skim in _skims(folder).items()})


def groups_in(folder: Path) -> Mapping[str, list[str]]:
    """The groups that files name, and the names of their pipelines. A file may turn out not to be valid."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, skim in _skims(folder).items():
        if skim.group is not None:
            found[skim.group].append(name)
    return found


def _skims(folder: Path) -> Mapping[str, _Skim]:
    files = [path for path in pipeline_files(folder) if path.suffix == ".yaml"]
    return {path.stem: _skimmed(path, changed_at(path)) for path in files}


def changed_at(path: Path) -> int:
    """When a pipeline file was changed last, in ns since 1970; 0 if it is not there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it has just been removed, or is a link that leads nowhere
        return 0


@lru_cache(maxsize=10_000)
def _skimmed(path: Path, changed_at: int) -> _Skim:
    """What a file names; nothing if it cannot be read."""
    try:
        data = read_yaml(read_users_file(path, path.parent))
    except (OSError, ValueError, yaml.YAMLError):
        return _Skim()
    if not isinstance(data, dict):
        return _Skim()
    group = data.get("group")
    name = group.strip() if isinstance(group, str) else ""
    return _Skim(tuple(places_in(data)), name if re.fullmatch(NAME, name) else None)


def _verify_apart(
    pipeline: Pipeline, path: Path, others: Mapping[str, set[str]], environment: Mapping[str, str]
) -> None:
    """Raises PipelineFileError for the first table that is not apart from the tables of a valid file. A file that is
    not valid does not run, and its own error comes first."""
    for name in sorted(others.get(pipeline.name, ())):
        other_path = path.with_name(f"{name}.yaml")
        try:
            other = load_pipeline(other_path, environment)
        except PipelineFileError:
            continue
        for mine, theirs in product(pipeline.places, other.places):
            if clash(mine, theirs):
                allowed = "a table that no other pipeline writes, and that lies neither inside nor around another one's"
                found = f"{mine.table!r}, while {other_path.name} has {theirs.table!r} as {theirs.field}"
                raise invalid(path, [Problem(mine.field, allowed, found)])


def variables_of(path: Path, environment: Mapping[str, str]) -> set[str]:
    """The environment variables that a valid pipeline file names where it may."""
    data = read_yaml(read_users_file(path, path.parent))
    return Written(data, environment, Pipeline).named() if isinstance(data, dict) else set()


def invalid(path: Path, problems: Sequence[Problem]) -> PipelineFileError:
    """The error for a pipeline file."""
    problems = [told(problem) for problem in problems]
    first, name = problems[0], str(path).encode(errors="backslashreplace").decode()  # a name may be no UTF-8
    return PipelineFileError(
        what="the pipeline file is not valid",
        where=f"{name}, field {first.field}",
        expected=first.allowed,
        found=first.found,
        action=f"correct the file and check it with `lakemark validate {Path(name).stem}`",
        problems=problems,
    )
