"""Finds the module that folds and merges changes of a kind."""

from __future__ import annotations

from collections.abc import Mapping

from include.pipeline_file.table_spec import Kind as KindName
from include.pipeline_file.table_spec import TableSpec
from spark_jobs.tables import scd1, scd2
from spark_jobs.tables.contract import Kind

_KINDS: Mapping[KindName, Kind] = {"scd1": scd1, "scd2": scd2}


def kind_of(spec: TableSpec) -> Kind:
    return _KINDS[spec.kind]
