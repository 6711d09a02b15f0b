"""The pipeline file: one YAML file per pipeline, checked in full before anything runs.

`Pipeline.model_json_schema()` is the schema for editors. Fields and values that only a later version understands are
errors that name them; they are never ignored. Imports `settings`, `lake` (for places) and `protocol`.
"""

from include.pipeline_file.change import OrderField
from include.pipeline_file.loading import find_pipeline, load_pipeline, load_pipelines, pipeline_files, variables_of
from include.pipeline_file.pipeline import Pipeline
from include.pipeline_file.quality import TableChecks
from include.pipeline_file.section import IS_CURRENT, LANDING, LINEAGE, RESCUED, VALID_FROM, VALID_TO
from include.pipeline_file.source import Registry, Security, Source
from include.pipeline_file.target import Upkeep

__all__ = [
    "IS_CURRENT",
    "LANDING",
    "LINEAGE",
    "RESCUED",
    "VALID_FROM",
    "VALID_TO",
    "OrderField",
    "Pipeline",
    "Registry",
    "Security",
    "Source",
    "TableChecks",
    "Upkeep",
    "find_pipeline",
    "load_pipeline",
    "load_pipelines",
    "pipeline_files",
    "variables_of",
]
