"""The field of a DAG's form that asks what sinks outside the lake get."""

from __future__ import annotations

from airflow.sdk import Param

from include.control.sink_form import ALL, CHOICES
from include.pipeline_file import Pipeline


def sinks_field(pipeline: Pipeline) -> dict[str, Param]:
    """The field, by its name; empty for a pipeline without sinks."""
    if not pipeline.sinks:
        return {}
    names = ", ".join(pipeline.sinks)
    return {
        "sinks": Param(
            ALL,
            type="string",
            enum=[*CHOICES],
            title="What sinks get",
            description=f"Of what this brings: {names}",
        )
    }
