"""How commands speak: data or lines on standard output, progress on standard error; and how they find pipelines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from include.pipeline_file import Pipeline, find_pipeline
from include.settings import Settings


def report(options: argparse.Namespace, facts: Any, lines: Iterable[str]) -> None:
    """`facts` as JSON if `--json` was given, else `lines`."""
    if options.json:
        print(json.dumps(facts, indent=2, default=str))
    else:
        for line in lines:
            print(line)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def named_pipeline(settings: Settings, name: str) -> Pipeline:
    return find_pipeline(name, settings.pipelines, settings.environment)
