"""`lakemark validate | explain`: what is in pipeline files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain

from include.cli.output import (
    Commands,
    add_bare_command,
    add_command_for_all,
    add_json,
    all_names,
    named_pipeline,
    report,
    say,
)
from include.pipeline_file import Pipeline
from include.pipeline_file.loading import invalid
from include.protocol.errors import LakemarkError, Problem, TableDamaged, TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

Check = Callable[[Settings, Pipeline], None]


def add_validate_command(commands: Commands) -> None:
    """Adds `validate` to the command's subparsers."""
    validate_ = add_command_for_all(commands, "validate", validate, "check pipeline files (all, unless named)")
    validate_.set_defaults(in_lake=False)  # it asks itself
    validate_.add_argument("--spark", action="store_true", help="ask Spark itself, too: conditions, transforms, types")


def add_explain_command(commands: Commands) -> None:
    """Adds `explain` to the command's subparsers."""
    explain_ = add_bare_command(commands, "explain", explain, "what a pipeline does, and what it guarantees")
    add_json(explain_)
    explain_.add_argument("pipeline", nargs="?", help="name of a pipeline")
    explain_.add_argument("--schema", action="store_true", help="print the JSON Schema of pipeline files, for editors")


def validate(settings: Settings, options: argparse.Namespace) -> int:
    from include.delivery.folder import verify_places
    from include.lake.lakes import verify_lake
    from include.pipeline_file.transform_file import verify_transform

    verify_lake(settings.lake, settings.home)
    checks: tuple[Check, ...] = (_validate_tables, _validate_suites, verify_transform, verify_places)
    checks += (_ask_spark,) if options.spark else ()
    found: list[JsonObject] = []
    for name in options.pipeline or all_names(settings):
        file = str(settings.pipelines / f"{name}.yaml")
        try:
            pipeline = named_pipeline(settings, name)
        except TerminalError as error:
            found.append({"file": file, "valid": False, **error.facts()})
            continue
        wrong = [problem for check in checks if (problem := _error_of(check, settings, pipeline)) is not None]
        if wrong:
            found += ({"file": file, "valid": False, **problem.facts()} for problem in wrong)
        else:
            warnings = [*pipeline.warnings, *_of_sinks(settings, pipeline)]
            found.append({"file": file, "valid": True, "warnings": warnings})
    report(options, found, chain.from_iterable(map(_lines, found)))
    return 0 if all(f["valid"] for f in found) else 1


def _of_sinks(settings: Settings, pipeline: Pipeline) -> tuple[str, ...]:
    """See `left_behind`. A ledger that cannot be read says nothing about the file."""
    from include.control.sink_decisions import left_behind

    try:
        return left_behind(settings, pipeline)
    except LakemarkError as error:
        return (f"what the ledger knows of sinks cannot be read: {error}",)


def _error_of(check: Check, settings: Settings, pipeline: Pipeline) -> TerminalError | None:
    try:
        check(settings, pipeline)
    except TerminalError as error:
        return error
    except LakemarkError:  # Spark does not answer: that says nothing about the file
        raise
    except Exception as error:  # whatever a suite or a transform holds, the other files are checked
        return TerminalError(
            what="a file could not be checked",
            where=f"{pipeline.name}, {check.__name__.strip('_')}",
            expected="a suite and a transform that can be read",
            found=f"{type(error).__name__}: {error}"[:300],
            action="look at the files that the pipeline names; and please report it: this is a defect of Lakemark",
        )
    return None


def _lines(found: JsonObject) -> Iterator[str]:
    """A line for each problem: file, field, what is allowed and what was found."""
    file = found["file"]
    if found["valid"]:
        yield f"{file}: valid"
        yield from (f"  warning: {warning}" for warning in found["warnings"])
    elif found.get("problems"):
        yield from (f"{file}: {Problem(**problem)}" for problem in found["problems"])
    else:
        yield f"{file}: {found['what']} ({found['where']}): expected {found['expected']}; found {found['found']}"


def _validate_tables(settings: Settings, pipeline: Pipeline) -> None:
    """Raises TerminalError if a table lies in another one, or around it."""
    from include.lake.delta_tables import verify_alone
    from include.participants.catalog import Catalog

    for half in pipeline.halves:
        for participant in Catalog.of(half).participants:
            verify_alone(participant.uri(settings))


def _ask_spark(settings: Settings, pipeline: Pipeline) -> None:
    """Raises PipelineFileError for what Spark refuses."""
    from include.jobs.runner import run_validation

    problems = run_validation(settings, pipeline.name, say)
    if problems:
        raise invalid(settings.pipelines / f"{pipeline.name}.yaml", problems)


def _validate_suites(settings: Settings, pipeline: Pipeline) -> None:
    """Raises SuiteError, also for faults that only Great Expectations itself finds."""
    from include.quality.gx_context import verify_with_gx
    from include.quality.judge import judge_of, suite_path, table_judge

    judges = [judge_of(settings, pipeline), table_judge(settings, pipeline) if pipeline.quality.table else None]
    for judge in filter(None, judges):
        verify_with_gx(suite_path(settings, judge.suite.name), judge.suite)


def _engines(settings: Settings, pipeline: Pipeline) -> dict[str, str]:
    """By table: what writes a small batch there, as the table is now, and why."""
    from include.participants.catalog import Catalog
    from include.participants.engines import choose

    found = {}
    for table in Catalog.of(pipeline).participants:
        try:
            choice = choose(settings, table.spec, table.uri(settings), width=0, is_chunk=False)
            found[table.name] = choice.in_words
        except TableDamaged as error:
            found[table.name] = f"none: {error.what}"
    return found


def explain(settings: Settings, options: argparse.Namespace) -> int:
    from include.participants.explain import explanation, markdown

    if options.schema:
        print(json.dumps(Pipeline.model_json_schema(), indent=2))
        return 0
    if options.pipeline is None:
        print("lakemark explain: name a pipeline, or give --schema", file=sys.stderr)
        return 2
    pipeline = named_pipeline(settings, options.pipeline)
    engines = _engines(settings, pipeline)
    written = [f"A small batch is written into {name} by {engine}" for name, engine in engines.items()]
    report(options, {**explanation(pipeline), "engines": engines}, [markdown(pipeline), *written])
    return 0
