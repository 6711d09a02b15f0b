"""`lakemark maintain | query`: a pipeline's tables."""

from __future__ import annotations

import argparse
import json

from include.cli.output import Commands, add_command, add_command_for_all, named_pipeline, named_pipelines, report, say
from include.pipeline_file.fresh_view import verify_has_view
from include.protocol.json_data import JsonObject
from include.settings import Settings


def add_table_commands(commands: Commands) -> None:
    """Adds `maintain` and `query` to the command's subparsers."""
    text = "keep a pipeline's tables quick to read and small on disk"
    add_command_for_all(commands, "maintain", maintain, text)
    text = "query the table as it will be when everything that has landed is merged"
    query_ = add_command(commands, "query", query, text, pipeline="name of a pipeline with `merge_every`")
    query_.add_argument("sql", nargs="?", default="SELECT * FROM fresh LIMIT 20", help="a query of the view `fresh`")


def maintain(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.report import maintenance_lines, told
    from include.jobs.runner import run_maintenance

    def listen(fact: JsonObject) -> None:
        if "result" not in fact:
            say(told(fact))

    pipelines, good = named_pipelines(settings, options.pipeline)
    won = [run_maintenance(settings, pipeline.name, listen, say) for pipeline in pipelines]
    report(options, won, (line for of_one in won for line in maintenance_lines(of_one)))
    return 0 if good else 1


def query(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.runner import run_query

    pipeline = named_pipeline(settings, options.pipeline)
    verify_has_view(pipeline)  # what its file says needs no Spark
    rows = run_query(settings, pipeline.name, options.sql, say)
    report(options, rows, (json.dumps(row) for row in rows))
    return 0
