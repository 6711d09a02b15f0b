"""Shows broken pipeline files, and a broken file of alerts, as one import error in Airflow's UI. It holds no DAG.

Airflow DAG discovery looks for the words "airflow" and "dag" in a file before it imports it.
"""

from __future__ import annotations

from include.monitoring.alerts import load_notifiers
from include.pipeline_file import load_pipelines
from include.protocol.errors import PipelineFileError
from include.settings import Settings

_settings = Settings.from_environment()
_, errors = load_pipelines(_settings.pipelines, _settings.environment)
if errors:
    first = errors[0]
    files = [error.file for error in errors]
    raise PipelineFileError(
        what=f"{len(errors)} pipeline file{'s are' if len(errors) > 1 else ' is'} not valid",
        where=", ".join(files),
        expected=first.expected,
        found=first.found,
        action="correct the files, and check them with `lakemark validate`; all other pipelines run on",
        problems=[
            problem._replace(field=f"{file}: {problem.field}")
            for file, error in zip(files, errors, strict=True)
            for problem in error.problems
        ],
    )
load_notifiers(_settings.alerts)
