"""Shows in Airflow's UI, as an import error, what is wrong beside the DAGs. It holds no DAG itself.

Airflow keeps import errors per DAG file, and stops scheduling all DAGs of a file that has one. With the bundle
(plugins/lakemark_bundle.py), a broken pipeline file is the error of its own DAG file. Without it, this file shows all.

Airflow DAG discovery looks for the words "airflow" and "dag" in a file before it imports it.
"""

from __future__ import annotations

from lakemark_bundle import is_configured  # in plugins/, which Airflow puts on the path

from include.monitoring.alerts import load_notifiers
from include.pipeline_file import load_pipelines
from include.pipeline_file.loading import pipeline_files
from include.protocol.errors import PipelineFileError
from include.settings import Settings


def verify_pipelines() -> None:
    """Raises PipelineFileError: files are broken. It names them all."""
    settings = Settings.from_environment()
    _, errors = load_pipelines(settings.pipelines, settings.environment)
    if not errors:
        return
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


def verify_others() -> None:
    """Raises TerminalError: there is no folder of pipelines, or the file of alerts is broken."""
    settings = Settings.from_environment()
    pipeline_files(settings.pipelines)
    load_notifiers(settings.alerts)


if not is_configured():
    verify_pipelines()
    verify_others()
