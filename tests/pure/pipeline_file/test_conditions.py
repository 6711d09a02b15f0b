"""`delete_when`: which columns it names, and so which columns a delete may hold beside its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.pipeline_file import load_pipeline
from include.pipeline_file.condition import columns_in
from tests.pure.pipeline_file.test_pipeline_file import GOOD, written


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("op = 'name'", {"op"}),
        ('op = "name"', {"op"}),
        ("OP = 'it\\'s name' OR `is gone`", {"op", "is gone"}),
        ("op = 'it''s' AND name IS NULL", {"op", "name"}),
        ("meta.op = 'd' OR flags['name'] = 1 OR flags[tag] = 2", {"meta", "flags", "tag"}),
        ("exists(tags, name -> name = 'gone')", {"tags"}),
        ("op IN ('d', 'name') -- never name", {"op"}),
        (
            "CASE WHEN date > DATE '2020-01-01' THEN deleted ELSE upper(status) = 'NAME' END",
            {"date", "deleted", "status"},
        ),
        *(
            (f"{name} = 'name'", {name})
            for name in ("show", "comment", "set", "describe", "delete", "kill", "use", "op")
        ),
        ("op === 'name' AND )( other", {"op", "and", "other"}),  # not SQL: all words outside of texts count
        (f"{'(' * 20_000}op = 'name'", {"op"}),
        ("", set()),
    ],
)
def test_the_columns_of_a_condition_are_not_the_words_of_its_texts(condition: str, columns: set[str]) -> None:
    assert columns_in(condition) == columns


def test_a_delete_holds_no_column_that_only_a_text_is_called_as(tmp_path: Path) -> None:
    data: dict[str, Any] = {
        **GOOD,
        "source": {**GOOD["source"], "schema": "id BIGINT, at TIMESTAMP, name STRING, op STRING"},
        "change": {**GOOD["change"], "delete_when": "op = 'name'"},
    }
    assert load_pipeline(written(tmp_path, data), {"KAFKA_BROKERS": "k:1"}).beyond_deletes == ("name",)
