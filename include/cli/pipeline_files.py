"""`lakemark validate | explain`: what is in pipeline files."""

from __future__ import annotations

import argparse
import json
import sys

from include.cli.output import Commands, add_bare_command, add_command_for_all, add_json, named_pipeline, report
from include.pipeline_file import Pipeline, find_pipeline, pipeline_files
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings


def add_validate_command(commands: Commands) -> None:
    """Adds `validate` to the command's subparsers."""
    add_command_for_all(commands, "validate", validate, "check pipeline files (all, unless named)")


def add_explain_command(commands: Commands) -> None:
    """Adds `explain` to the command's subparsers."""
    explain_ = add_bare_command(commands, "explain", explain, "what a pipeline does, and what it guarantees")
    add_json(explain_)
    explain_.add_argument("pipeline", nargs="?", help="name of a pipeline")
    explain_.add_argument("--schema", action="store_true", help="print the JSON Schema of pipeline files, for editors")


def validate(settings: Settings, options: argparse.Namespace) -> int:
    from include.lake.delta_tables import verify_alone
    from include.participants.catalog import Catalog
    from include.pipeline_file.transform_file import verify_transform

    found: list[JsonObject] = []
    named = [settings.pipelines / f"{name}.yaml" for name in options.pipeline]
    for path in named or pipeline_files(settings.pipelines):
        try:
            pipeline = find_pipeline(path.stem, settings.pipelines, settings.environment)
            for half in pipeline.halves:
                for participant in Catalog.of(half).participants:
                    verify_alone(participant.uri(settings))
            _validate_suites(settings, pipeline)
            verify_transform(settings, pipeline)
            found.append({"file": str(path), "valid": True, "warnings": list(pipeline.warnings)})
        except TerminalError as error:
            found.append({"file": str(path), "valid": False, **error.facts()})
    lines = (
        "\n  warning: ".join((f"{f['file']}: valid", *f["warnings"]))
        if f["valid"]
        else f"{f['where']}: expected {f['expected']}; found {f['found']}"
        for f in found
    )
    report(options, found, lines)
    return 0 if all(f["valid"] for f in found) else 1


def _validate_suites(settings: Settings, pipeline: Pipeline) -> None:
    """Raises SuiteError, also for faults that only Great Expectations itself finds."""
    from include.quality.gx_context import verify_with_gx
    from include.quality.judge import judge_of, suite_path, table_judge

    judges = [judge_of(settings, pipeline), table_judge(settings, pipeline) if pipeline.quality.table else None]
    for judge in filter(None, judges):
        verify_with_gx(suite_path(settings, judge.suite.name), judge.suite)


def explain(settings: Settings, options: argparse.Namespace) -> int:
    from include.participants.explain import explanation, markdown

    if options.schema:
        print(json.dumps(Pipeline.model_json_schema(), indent=2))
        return 0
    if options.pipeline is None:
        print("lakemark explain: name a pipeline, or give --schema", file=sys.stderr)
        return 2
    pipeline = named_pipeline(settings, options.pipeline)
    report(options, explanation(pipeline), [markdown(pipeline)])
    return 0
