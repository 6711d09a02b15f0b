"""Finds the module that makes and merges tables of a kind."""

from __future__ import annotations

from collections.abc import Mapping

from include.pipeline_file.table_spec import Kind, TableSpec
from spark_jobs.tables import scd1, scd2
from spark_jobs.tables.contract import Writer

_WRITERS: Mapping[Kind, Writer] = {"scd1": scd1, "scd2": scd2}


def writer_of(spec: TableSpec) -> Writer:
    return _WRITERS[spec.kind]
