"""The job: applies one planned batch of a pipeline, or all batches until Kafka has nothing new.

    python -m spark_jobs.merge_job --members FILE [--remote URL | --master MASTER | --submitted]
    python -m spark_jobs.merge_job --pipeline NAME [--remote URL | --master MASTER | --submitted]
        (--generation G --batch N [--until TOPIC-PARTITION:OFFSET,...] | --whole-run | --until-caught-up
         | --backfill N | --promote N | --create-target | --maintain | --check [--table-version V] | --query SQL
         | --validate | --answer FOLDER)

Offset ranges are never among its arguments: the ledger has them. With `--until` it goes on, in the same session, to
plan, apply and settle batches until every partition has reached that offset. `--whole-run` also plans the first batch,
and how far to go. Chunk K of backfill N is batch K of generation -N; `--backfill` runs all chunks that have not landed,
in one session. With `--members` it does whole runs of the pipelines that FILE names, line by line, until that says so
(`spark_jobs.commands.members`).

It reports in JSON lines: `{"progress": ...}` while it works, `{"result": ...}` for every batch, `{"error": ...,
"kind": ...}` if it failed, and last, on an object store, `{"requests": ...}`: how many it has sent. The exit code tells
the error's kind (0 good, 10 retryable, 11 outcome unknown, 12 terminal). The lines go to `--journal`, and nothing else
does. Without that option they go to standard output, where other things may be printed as well. Logs go to standard
error.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager, closing

from pyspark.sql import SparkSession

from include.control.coordinator import Coordinator
from include.lake.stores import lines_at, requests_sent
from include.lake.uri import LakeUri
from include.participants.catalog import Catalog
from include.pipeline_file import Pipeline, find_pipeline
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.ledger_events import FIRST_GENERATION
from include.protocol.ranges import offsets_from_argument
from include.protocol.runs import RunPlan
from include.settings import Settings
from spark_jobs.commands.answers import answer
from spark_jobs.commands.checks import TableCheck
from spark_jobs.commands.maintenance import Maintenance
from spark_jobs.commands.members import run_members
from spark_jobs.commands.promote import promote
from spark_jobs.commands.runs import Runs, SharedSession
from spark_jobs.commands.unmerged import answer_fresh
from spark_jobs.commands.validation import problems_for_spark
from spark_jobs.engine.facts import SayFact
from spark_jobs.engine.session import open_session
from spark_jobs.tables.writers import writer_of


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    settings, say = Settings.from_environment(), journal_at(options.journal)
    if options.members is not None:
        run_members(options.members, lambda now: _session(now, options), options.started_by, say)
        code = 0
    else:
        code = _do(options, settings, say)
    if settings.lake.scheme == "s3":
        say({"requests": requests_sent()})
    return code


def _do(options: argparse.Namespace, settings: Settings, say: SayFact) -> int:
    try:
        pipeline = find_pipeline(options.pipeline, settings.pipelines, settings.environment)
        if options.create_target:
            with _session(settings, options) as spark:
                point = Catalog.of(pipeline).point
                writer_of(point.spec).ensure(spark, point.uri(settings), point.spec)
        elif options.promote is not None:
            with _session(settings, options) as spark:
                promote(spark, settings, pipeline, number=options.promote, started_by=options.started_by)
        elif options.maintain:
            with closing(SharedSession(lambda: _session(settings, options))) as session:
                maintenance = Maintenance(session.get, settings, pipeline, started_by=options.started_by, say=say)
                say({"result": maintenance.run()})
        elif options.query is not None:
            with _session(settings, options) as spark:
                say({"result": {"rows": answer_fresh(spark, settings, pipeline, options.query)}})
        elif options.validate:
            with _session(settings, options) as spark:
                problems = problems_for_spark(spark, settings, pipeline)
                say({"result": {"validated": pipeline.name, "problems": [problem._asdict() for problem in problems]}})
        elif options.answer is not None:
            with _session(settings, options) as spark:
                answer(spark, pipeline.name, LakeUri(options.answer))
        elif options.check:
            with _session(settings, options) as spark:
                say({"result": TableCheck(spark, settings, pipeline).run(options.table_version)})
        else:
            _batches(settings, pipeline, options, say)
    except LakemarkError as error:
        say(error.facts())
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def journal_at(place: str | None) -> SayFact:
    """What writes the lines that this job reports: to a place that holds nothing else and that no child process
    inherits; by default to standard output."""
    if place is None:
        return lambda fact: print(json.dumps(fact), flush=True)
    journal = lines_at(LakeUri(place))
    return lambda fact: journal.add(json.dumps(fact))


def _batches(settings: Settings, pipeline: Pipeline, options: argparse.Namespace, say: SayFact) -> None:
    """Runs one batch, or several in one session."""
    coordinator = Coordinator(settings, pipeline)
    with closing(SharedSession(lambda: _session(settings, options))) as session:
        runs = Runs(settings, session, options.started_by, say)
        if options.backfill is not None:
            backfill = coordinator.ledger.state().backfill(pipeline.name, options.backfill)
            for chunk in range(len(backfill.chunks)):
                say({"result": runs.attempt(pipeline, backfill.batch(chunk).key).to_json()})
        elif options.whole_run:
            runs.whole_run(pipeline)
        elif options.batch is None:
            runs.until_caught_up(pipeline)
        else:
            first = BatchKey(options.generation, options.batch)
            run = RunPlan(first, options.until) if options.until is not None else None
            if coordinator.is_over(run or first):
                say({"progress": "nothing to do", "why": "what this belongs to has ended, and nothing of it can land"})
                return
            if run is None:
                say({"result": runs.attempt(pipeline, first).to_json()})
            else:
                runs.run(pipeline, run)


def _session(settings: Settings, options: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    return open_session(
        settings, options.remote, options.master, options.submitted, in_background=not _is_live(options)
    )


def _is_live(options: argparse.Namespace) -> bool:
    """Whether it runs batches that readers wait for. All else is work in the background, also chunks of backfills."""
    runs_batches = options.until_caught_up or options.whole_run or options.members is not None
    return runs_batches or (options.batch is not None and options.generation >= FIRST_GENERATION)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.pipeline is None) == (options.members is None):
        parser.error("it takes --pipeline, or --members and no --pipeline")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="merge_job", description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", help="for all but --members")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--members", metavar="FILE", help="do whole runs of the pipelines that this file names")
    what.add_argument("--batch", type=int, help="id of a planned batch")
    what.add_argument("--until-caught-up", action="store_true")
    what.add_argument("--whole-run", action="store_true", help="plan a run, and do all of it")
    what.add_argument("--backfill", type=int, metavar="N", help="all chunks of a planned backfill")
    what.add_argument("--promote", type=int, metavar="N", help="puts a backfill's table in the target's place")
    what.add_argument("--create-target", action="store_true", help="only create the target's table, if there is none")
    what.add_argument("--maintain", action="store_true", help="only maintain the pipeline's tables")
    what.add_argument("--query", metavar="SQL", help="only query the view `fresh` (see `spark_jobs.commands.unmerged`)")
    what.add_argument("--validate", action="store_true", help="only ask Spark whether it takes the pipeline file")
    what.add_argument("--answer", metavar="FOLDER", help="only answer an audit's question about conditions")
    what.add_argument("--check", action="store_true", help="only judge the target by its own suite")
    parser.add_argument("--table-version", type=int, metavar="V", help="the target's version; default: the newest")
    parser.add_argument("--generation", type=int, default=FIRST_GENERATION, help="the batch's generation")
    parser.add_argument("--until", type=offsets_from_argument, help="go on after the batch, up to these end offsets")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--remote", help="sc://host:port of a Spark Connect server")
    where.add_argument("--master", help="run the driver in this process, on this master (default local[*])")
    where.add_argument("--submitted", action="store_true", help="spark-submit has started this, with all options")
    parser.add_argument("--journal", metavar="FILE", help="write the lines to this file, or below this URI")
    parser.add_argument(
        "--started-by", default="cli", help="for the ledger: who started it, and where to find that run"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
