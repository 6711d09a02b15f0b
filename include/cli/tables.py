"""`lakemark maintain | query`: a pipeline's tables."""

from __future__ import annotations

import argparse
import json

from include.cli.output import (
    Commands,
    add_bare_command,
    add_command_for_all,
    add_json,
    named_pipeline,
    named_pipelines,
    report,
    say,
    who,
)
from include.lake.sql import sql_name
from include.pipeline_file import Pipeline
from include.pipeline_file.fresh_view import FRESH, verify_has_view
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

_ROWS = 20  # that are shown without a query


def add_table_commands(commands: Commands) -> None:
    """Adds `maintain` and `query` to the command's subparsers."""
    text = "keep a pipeline's tables quick to read and small on disk"
    add_command_for_all(commands, "maintain", maintain, text)
    text = "query all tables of a pipeline together, as one batch has left them"
    query_ = add_bare_command(commands, "query", query, text)
    query_.set_defaults(in_lake=True)
    query_.add_argument("pipeline", nargs="+", metavar="NAME", help="pipelines; and last the query, which has spaces")
    text = "batch:BATCH, batch:GENERATION/BATCH, or a time: the newest batch by then; default: the newest batch"
    query_.add_argument("--at", metavar="CHECKPOINT|TIME", help=text)
    add_json(query_)


def maintain(settings: Settings, options: argparse.Namespace) -> int:
    from include.jobs.report import maintenance_lines, told
    from include.jobs.runner import run_maintenance

    def listen(fact: JsonObject) -> None:
        if "result" not in fact:
            say(told(fact))

    pipelines, good = named_pipelines(settings, options.pipeline)
    won = [run_maintenance(settings, pipeline.name, who(), listen=listen, log=say) for pipeline in pipelines]
    report(options, won, (line for of_one in won for line in maintenance_lines(of_one)))
    return 0 if good else 1


def query(settings: Settings, options: argparse.Namespace) -> int:
    *names, last = options.pipeline
    sql = last if any(map(str.isspace, last)) else None  # no pipeline's name has a space
    names = [*dict.fromkeys([*names, *([last] if sql is None else [])])]
    if not names:
        raise TerminalError(
            what="a query needs a pipeline",
            where=str(sql)[:200],
            expected="the name of one pipeline or of several, and then the query",
            found="a query alone",
            action="name the pipeline first: `lakemark query NAME 'SELECT ...'`",
        )
    pipelines = [named_pipeline(settings, name) for name in names]
    is_fresh = options.at is None and len(pipelines) == 1 and (FRESH in (sql or "") or pipelines[0].merge_every)
    rows = _fresh(settings, pipelines[0], sql) if is_fresh else _at(settings, pipelines, sql, options.at)
    report(options, rows, (json.dumps(row, default=str) for row in rows))
    return 0


def _fresh(settings: Settings, pipeline: Pipeline, sql: str | None) -> list[JsonObject]:
    from include.jobs.runner import run_query

    verify_has_view(pipeline)  # what its file says needs no Spark
    return run_query(settings, pipeline.name, sql or f"SELECT * FROM {FRESH} LIMIT {_ROWS}", say)


def _at(settings: Settings, pipelines: list[Pipeline], sql: str | None, when: str | None) -> list[JsonObject]:
    from include.checkpoints.reading import Cut, query_at

    cuts = [Cut.at(settings, pipeline, when) for pipeline in pipelines]
    for cut in cuts:
        versions = ", ".join(f"{name} version {version:,}" for name, version in cut.versions.items())
        at = f", committed {cut.checkpoint.committed_at}" if cut.checkpoint.committed_at is not None else ""
        say(f"{cut.pipeline.name}, {cut.checkpoint.in_words}{at}: {versions}")
    schema = "" if len(cuts) == 1 else f"{sql_name(cuts[0].pipeline.name)}."
    rows: list[JsonObject] = query_at(cuts, sql or f"SELECT * FROM {schema}target LIMIT {_ROWS}").to_pylist()
    return rows
