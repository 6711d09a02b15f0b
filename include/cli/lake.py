"""`lakemark lake copy | reopen | mark`: the lake as a whole."""

from __future__ import annotations

import argparse

from include.cli.output import Commands, add_bare_command, add_json, named_pipelines, report, say
from include.lake.uri import lake_at
from include.pipeline_file import pipeline_files
from include.settings import Settings


def add_lake_command(commands: Commands) -> None:
    """Adds `lake` to the command's subparsers."""
    lake = commands.add_parser("lake", help="bring the lake to another place")
    actions = lake.add_subparsers(required=True, metavar="ACTION")
    text = "copy the lake, from a folder to an object store or back; from then on its pipelines run there"
    copy_ = add_bare_command(actions, "copy", copy, text)
    copy_.add_argument("to", help="s3://BUCKET/PREFIX, or an absolute path: an empty place")
    add_json(copy_)
    text = "let the pipelines run in this lake again, though a copying has begun that has not ended"
    add_json(add_bare_command(actions, "reopen", reopen, text))
    text = "write the lake's mark again, where it was lost"
    add_json(add_bare_command(actions, "mark", mark, text))


def copy(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.lake_copy import LakeCopy
    from include.lake.lakes import verify_same
    from include.lake.writing import writing

    names = [path.stem for path in pipeline_files(settings.pipelines)]
    pipelines = named_pipelines(settings, names)[0] if names else []
    to = lake_at(options.to)
    verify_same(settings.lake, settings.home)
    with writing("the copy of the lake", to):
        done = LakeCopy(settings, to, pipelines, say).run()
    report(
        options,
        done,
        [
            f"copied {done['tables']} tables in {done['files']:,} files ({done['bytes'] / 1e6:,.1f} MB), and compared "
            f"every file, in {done['seconds']:.0f} s",
            f"set LAKEMARK_LAKE={done['to']} where Airflow's workers, Spark and the command get their environment; "
            f"the pipelines run there only. {done['from']} stays as it is: remove it when nobody needs it",
        ],
    )
    return 0


def reopen(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.lake_homes import reopen as reopened
    from include.lake.lakes import verify_same

    verify_same(settings.lake, settings.home)
    count = reopened(settings)
    report(
        options, {"lake": str(settings.lake), "pipelines": count}, [f"{count} pipelines run in {settings.lake} again"]
    )
    return 0


def mark(settings: Settings, options: argparse.Namespace) -> int:
    from include.control.lake_homes import mark as marked

    found = marked(settings)
    report(options, {"lake": str(settings.lake), "id": found}, [f"{settings.lake} has its mark {found} again"])
    return 0
