"""`lakemark quality check | show | docs | suggest`: judge tables, show verdicts, draft new suites."""

from __future__ import annotations

import argparse
import json

from include.cli.output import (
    Commands,
    a_count,
    add_bare_command,
    add_command,
    add_json,
    argument,
    named_pipeline,
    named_pipelines,
    report,
    say,
)
from include.pipeline_file.tables import Tables
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.quality.publish import NEWEST
from include.settings import Settings


def add_quality_command(commands: Commands) -> None:
    """Adds `quality` to the command's subparsers."""
    quality = commands.add_parser("quality", help="verdicts of quality suites")
    actions = quality.add_subparsers(required=True, metavar="ACTION")
    text = "judge the target itself by the suite that the pipeline file names for it"
    check_ = add_command(actions, "check", check, text)
    check_.add_argument("--version", type=int, metavar="V", help="the table's version; default: the newest")
    show_ = add_command(actions, "show", show, "every rule of the newest judgement, with its figures")
    show_.add_argument("--batch", type=int, metavar="N", help="the judgement of batch N of this generation instead")
    suggest_ = add_command(actions, "suggest", suggest, "draft a suite from the newest records, with reasons")
    suggest_.add_argument("--records", type=int, default=20_000, metavar="N", help="read N records (20,000)")
    suggest_.add_argument(
        "--write", action="store_true", help="write it into the folder of suites, unless there is one already"
    )
    text = "build Great Expectations' Data Docs of all pipelines, or those named"
    docs_ = add_bare_command(actions, "docs", docs, text)
    docs_.add_argument("pipeline", nargs="*", help="name of a pipeline")
    place = "a folder, or s3://BUCKET/PREFIX (with boto3's own settings); default: LAKEMARK_DATA_DOCS, or a folder"
    docs_.add_argument("--to", metavar="PLACE", help=f"{place} in Lakemark's home")
    docs_.add_argument(
        "--last",
        type=argument(a_count),
        default=NEWEST,
        metavar="N",
        help=f"the last N judgements of each pipeline ({NEWEST})",
    )
    add_json(docs_)


def check(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.report import check_line
    from include.jobs.runner import run_check
    from include.quality.judge import table_judge

    pipeline = named_pipeline(settings, options.pipeline)
    table_judge(settings, pipeline)  # what its files say wrong needs no Spark
    found = run_check(settings, pipeline.name, options.version, listen=lambda fact: None, log=say)
    report(options, found, [check_line(found)])
    return 0


def show(settings: Settings, options: argparse.Namespace) -> int:
    from include.quality.evidence import judgements

    pipeline = named_pipeline(settings, options.pipeline)
    rows = judgements(Tables.of(settings, pipeline).quality)
    if options.batch is not None:
        newest = max((row["generation"] or 0 for row in rows), default=0)
        rows = [row for row in rows if (row["generation"], row["batch_id"]) == (newest, options.batch)]
    rows = [row for row in rows if row["attempt_id"] == rows[-1]["attempt_id"]]
    report(options, rows, map(_line, rows) if rows else ["there is no such judgement"])
    return 0


def suggest(settings: Settings, options: argparse.Namespace) -> int:
    from include.quality.judge import suite_path
    from include.quality.suggest import suggest as suggest_suite

    pipeline = named_pipeline(settings, options.pipeline)
    suite = suggest_suite(pipeline, options.records)
    text = json.dumps(suite, indent=2)
    if not options.write:
        print(text)
        return 0
    path = suite_path(settings, pipeline.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x") as file:
            file.write(text + "\n")
    except FileExistsError as error:
        raise TerminalError(
            what="a suite of that name exists already",
            where=str(path),
            expected="no file there: a draft never replaces a file",
            found="a file",
            action="move it away, or leave out --write and copy the rules that you want",
        ) from error
    lines = [f"{rule['type']}({rule['kwargs']['column']}): {rule['notes']}" for rule in suite["expectations"]]
    report(options, {"suite": str(path), "rules": len(lines)}, [*lines, f"written to {path}"])
    return 0


def docs(settings: Settings, options: argparse.Namespace) -> int:
    from include.quality.publish import publish

    pipelines, good = named_pipelines(settings, options.pipeline)
    place = options.to or settings.data_docs or str(settings.home / "data_docs")
    index = publish(settings, pipelines, place, newest=options.last, say=say)
    report(options, {"index": index}, [index])
    return 0 if good else 1


def _line(row: JsonObject) -> str:
    """A rule's result, for people."""
    held = "held  " if row["success"] else "BROKEN"
    if row["unexpected_count"] is None:
        found = f"observed {json.dumps(row['observed'])}"
    else:
        found = f"{row['unexpected_count']:,} of {row['element_count']:,} rows break it"
        if row["sample"]:
            found += f", like {json.dumps(row['sample'][0])[:100]}"
    return f"{held}  {row['policy']:<10}  {row['rule']}: {found}"
