"""Format `protobuf` in Confluent's wire format: a zero byte, the schema's id, the message's indexes, the message.

Spark's own functions for Protobuf are not published for this version of Spark. So Python workers turn each message into
JSON, by the schema that it was written with. The JSON is then decoded like any other.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.pipeline_file import LINEAGE, Pipeline
from include.sources.protobuf_schema import ProtobufSchema, json_decoder
from include.sources.schema_registry import SchemaRegistry
from spark_jobs.formats import plain_json
from spark_jobs.formats.contract import RECORD, UNDECODABLE
from spark_jobs.formats.framing import schema_id, schema_ids, unreadable

_ID, _TEXT = f"{LINEAGE}_schema_id", f"{LINEAGE}_text"


def decoded(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records (struct RECORD) with the contract's columns."""
    value = F.col(f"{RECORD}.value")
    known = records.withColumn(_ID, schema_id(value))
    registry = SchemaRegistry.of(pipeline.source)
    schemas = {number: registry.protobuf(number) for number in schema_ids(known, _ID)}
    compiled = {n: schema.descriptors for n, schema in schemas.items() if isinstance(schema, ProtobufSchema)}

    @F.udf("string", useArrow=True)
    def as_json(number: int | None, framed: bytes | None) -> str | None:
        return None if framed is None or number not in compiled else json_decoder(compiled[number])(bytes(framed))

    text = known.withColumn(_TEXT, as_json(_ID, value))
    problem = F.coalesce(unreadable(F.col(_ID), schemas), F.when(F.col(_TEXT).isNull(), UNDECODABLE))
    return plain_json.of_json(text, F.col(_TEXT).cast("binary"), problem, pipeline)
