"""Finds the writer of a table."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.tables import append, merging
from spark_jobs.tables.contract import Spec, Writer

_WRITERS: Mapping[str, Writer] = {"append": append, "scd1": merging, "scd2": merging}


def writer_of(spec: Spec) -> Writer:
    return _WRITERS[spec.kind]
