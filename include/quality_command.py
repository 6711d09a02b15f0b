"""`lakemark quality check | show | docs`: what suites say of tables, and what they said."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from include.cli_output import add_command, named_pipeline, report, say
from include.pipeline_file import load_pipelines
from include.settings import Settings
from include.storage import Tables


def add_quality_command(commands: Any) -> None:
    """Adds `quality` to the command's subparsers."""
    quality = commands.add_parser("quality", help="what quality suites said")
    actions = quality.add_subparsers(required=True, metavar="ACTION")
    check_ = add_command(actions, "check", check, "judge the target itself by the suite that the file names for it")
    check_.add_argument("--version", type=int, metavar="V", help="of the table; default: the newest")
    show_ = add_command(actions, "show", show, "every rule of the newest judgement, with its figures")
    show_.add_argument("--batch", type=int, metavar="N", help="of this batch of the present generation instead")
    text = "build Great Expectations' Data Docs of all pipelines, or those named"
    docs_ = actions.add_parser("docs", help=text, description=text)
    docs_.set_defaults(command=docs)
    docs_.add_argument("pipeline", nargs="*", help="name of a pipeline")
    docs_.add_argument("--to", type=Path, metavar="FOLDER", help="default: data_docs in Lakemark's home")
    docs_.add_argument("--last", type=int, default=100, metavar="N", help="so many judgements of each pipeline (100)")
    docs_.add_argument("--json", action="store_true", help="print data instead of text")


def check(settings: Settings, options: argparse.Namespace) -> int:
    from include.job_report import check_line
    from include.runner import run_check

    pipeline = named_pipeline(settings, options.pipeline)
    found = run_check(settings, pipeline.name, options.version, lambda fact: None, say)
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
    report(options, rows, map(_line, rows) if rows else ["no suite has judged that"])
    return 0


def docs(settings: Settings, options: argparse.Namespace) -> int:
    from include.quality.data_docs import build

    if options.pipeline:
        pipelines = [named_pipeline(settings, name) for name in options.pipeline]
    else:
        pipelines = load_pipelines(settings.pipelines, settings.environment)[0]
    index = build(settings, pipelines, options.to or settings.home / "data_docs", options.last)
    report(options, {"index": str(index)}, [str(index)])
    return 0


def _line(row: dict[str, Any]) -> str:
    """A rule's result, for people."""
    held = "held  " if row["success"] else "BROKEN"
    if row["unexpected_count"] is None:
        found = f"observed {json.dumps(row['observed'])}"
    else:
        found = f"{row['unexpected_count']:,} of {row['element_count']:,} rows break it"
        if row["sample"]:
            found += f", like {json.dumps(row['sample'][0])[:100]}"
    return f"{held}  {row['policy']:<10}  {row['rule']}: {found}"
