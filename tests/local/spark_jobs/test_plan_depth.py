"""How deep the plans are that Spark Connect is asked for: it takes no message that is more than 100 deep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from google.protobuf.message import Message
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import Range

from include.pipeline_file import Pipeline
from spark_jobs.changes.decode import decode

EXAMPLES = Path(__file__).parents[3] / "include/pipelines/examples"
DEEPEST = 80  # the MERGE and a suite's rules are around it
OF_REGISTRY = ("avro", "debezium-avro", "protobuf")  # which ask it while the plan is made


def depth(message: Message) -> int:
    return 1 + max((depth(part) for part in parts(message)), default=0)


def parts(message: Message) -> Iterator[Message]:
    for _, value in message.ListFields():
        held = value.values() if hasattr(value, "values") else value if hasattr(value, "__iter__") else [value]
        yield from (part for part in held if isinstance(part, Message))


def pipelines() -> Iterator[Any]:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found = yaml.safe_load(re.sub(r"\$\{[^}]*\}", "kafka:9092", path.read_text()))
        found.pop("sinks", None)  # what is decoded does not depend on them
        if found["source"].get("format") not in OF_REGISTRY and "transform" not in found:
            yield pytest.param(found, id=path.stem)


@pytest.mark.parametrize("file", list(pipelines()))
def test_no_example_is_decoded_by_a_plan_that_is_too_deep(
    monkeypatch: pytest.MonkeyPatch, file: dict[str, Any]
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")  # functions are Connect's; no server is asked
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    # Without a session PySpark decides for the whole process that errors are to name no lines.
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", False)
    client = MagicMock()  # stands in for the server, which a unit test has not
    records = DataFrame(Range(0, 1, 1), client)
    made: Any = decode(records, Pipeline.model_validate(file))  # type: ignore[arg-type]
    assert 10 < depth(made._plan.plan(client.client)) <= DEEPEST
