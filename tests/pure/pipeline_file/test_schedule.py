"""`schedule` in a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from include.participants.explain import markdown
from include.pipeline_file import Pipeline, load_pipeline
from include.pipeline_file.schedule import OnData, OnTables
from include.protocol.errors import PipelineFileError

DATA = {
    "name": "p",
    "source": {"bootstrap_servers": "k:9092", "topics": ["t"], "schema": "id BIGINT"},
    "change": {"keys": ["id"]},
    "target": {"table": "lake://silver/p"},
}


def load(folder: Path, schedule: Any) -> Pipeline:
    path = folder / "p.yaml"
    path.write_text(yaml.safe_dump({**DATA, "schedule": schedule}))
    return load_pipeline(path, {})


@pytest.mark.parametrize(
    ("written", "meant", "words"),
    [
        (None, None, "only when it is triggered"),
        ("*/5 * * * *", "*/5 * * * *", "cron `*/5 * * * *`"),
        ("@daily", "@daily", "cron `@daily`"),
        ("continuous", OnData(records=1, seconds=0), "all the time"),
        ("on_data", OnData(records=10_000, seconds=10), "as soon as 10,000 records wait in Kafka"),
        ({"on_data": {"seconds": 60}}, OnData(records=10_000, seconds=60), "has waited for 60 s"),
        (
            {"tables": ["lake://silver/a"]},
            OnTables(tables=("lake://silver/a",)),
            "when lake://silver/a has a new version",
        ),
    ],
)
def test_schedules_that_are_understood(tmp_path: Path, written: Any, meant: Any, words: str) -> None:
    pipeline = load(tmp_path, written)
    assert pipeline.schedule == meant
    assert words in markdown(pipeline)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("now and then", "field schedule): expected a cron expression"),
        ("* * * * * *", "field schedule): expected a cron expression"),
        ({"on_data": {"recods": 5}}, "field schedule.on_data.recods): expected one of records, seconds"),
        ({"on_data": {"records": 0}}, "field schedule.on_data.records"),
        ({"tables": ["orders"]}, "field schedule.tables): expected tables like lake://silver/orders"),
        ({"tables": []}, "field schedule.tables"),
        ({"when": "late"}, "field schedule): expected a cron expression"),
    ],
)
def test_schedules_that_are_refused_by_name(tmp_path: Path, written: Any, told: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        load(tmp_path, written)
    assert told in str(refused.value)


def test_editors_are_told_the_forms() -> None:
    forms = Pipeline.model_json_schema()["properties"]["schedule"]["anyOf"]
    assert [form.get("required") for form in forms if form["type"] == "object"] == [["on_data"], ["tables"]]
