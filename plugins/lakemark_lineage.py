"""Tells OpenLineage what a run read and wrote, column by column, if Airflow is set up to send such events.

The event belongs to the run's task (Airflow's own provider takes care of that). Datasets are named by OpenLineage's
naming specification: `kafka://HOST:PORT` and the topic, `file` and the table's path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.providers.openlineage import conf

from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.ledger_records import BatchRecord
from include.settings import Settings

if TYPE_CHECKING:  # importing them costs a second
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import column_lineage_dataset


def of_run(settings: Settings, pipeline: Pipeline, settled: Sequence[BatchRecord]) -> None:
    """Sends the batches that a run has settled. The provider logs errors, and they fail no task."""
    if conf.is_disabled() or not settled:
        return
    from airflow.providers.openlineage.api import emit_dataset_lineage  # imported here, because it costs a second

    inputs, output = datasets(settings, pipeline, settled)
    emit_dataset_lineage(inputs=inputs, outputs=[output])


def datasets(
    settings: Settings, pipeline: Pipeline, settled: Sequence[BatchRecord]
) -> tuple[list[InputDataset], OutputDataset]:
    """The topics as inputs, the target as output: schema, version, column lineage, rows."""
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import (
        column_lineage_dataset,
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
    )

    columns = pipeline.columns
    schema = schema_dataset.SchemaDatasetFacet(
        fields=[schema_dataset.SchemaDatasetFacetFields(name=c.name, type=c.type) for c in columns]
    )
    brokers = f"kafka://{pipeline.source.bootstrap_servers.split(',')[0].strip()}"
    topics = pipeline.source.topics or sorted(settled[-1].batch.topic_ids)
    inputs = [InputDataset(namespace=brokers, name=topic, facets={"schema": schema}) for topic in topics]

    def from_topics(name: str) -> list[column_lineage_dataset.InputField]:
        direct = column_lineage_dataset.Transformation(type="DIRECT", subtype="IDENTITY")
        return [
            column_lineage_dataset.InputField(namespace=i.namespace, name=i.name, field=name, transformations=[direct])
            for i in inputs
        ]

    lineage = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={c.name: column_lineage_dataset.Fields(inputFields=from_topics(c.name)) for c in columns}
    )
    commits = [record.commit for record in settled if record.commit]
    rows = sum(commit.counts.applied for commit in commits if commit.counts)
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(commits[-1].table_version))
    output = OutputDataset(
        namespace="file",
        name=str(Tables.of(settings, pipeline).target),
        facets={"schema": schema, "columnLineage": lineage, "version": version},
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        },
    )
    return inputs, output
