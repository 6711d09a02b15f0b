"""A SELECT means the same to DuckDB as to Spark, or the audit says that it cannot compute it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pytest

from include.audit.changes import WANTED
from include.audit.recompute import verify_computable
from include.audit.report import NotRecomputed
from include.audit.spark_sql import translated
from include.audit.transforming import Pinned, transformed, verify_sql
from include.pipeline_file import Pipeline
from include.protocol.ranges import OffsetRange
from include.settings import Settings
from include.sources.duckdb_records import decoded, load
from include.sources.kafka_records import Record

PIPELINE: dict[str, Any] = {
    "name": "p",
    "source": {"bootstrap_servers": "k:1", "topics": ["t"], "schema": "id BIGINT, seq BIGINT, tags ARRAY<STRING>"},
    "transform": {"file": "t.sql", "schema": "id BIGINT, tag STRING, seq BIGINT"},
    "change": {"keys": ["id", "tag"], "order_by": ["seq"]},
    "target": {"table": "lake://silver/p"},
}


def made(folder: Path, sql: str, **transform: str) -> list[tuple[Any, ...]]:
    (folder / "t.sql").write_text(sql)
    pipeline = Pipeline.model_validate({**PIPELINE, "transform": {**PIPELINE["transform"], **transform}})
    database = duckdb.connect()
    values = [
        b'{"id": 1, "seq": 5, "tags": ["a", "b", null]}',
        b'{"id": 2, "seq": 6, "tags": []}',
        b'{"id": 3, "seq": 7}',
    ]
    load(database, pipeline, [[Record("t", 0, n, None, None, value, None) for n, value in enumerate(values)]])
    pinned = Pinned({(): [OffsetRange("t", 0, 0, 10)]})
    settings = cast("Settings", SimpleNamespace(transforms=folder))
    query = transformed(
        database,
        settings,
        pipeline,
        decoded=f"SELECT *, true AS {WANTED} FROM ({decoded(pipeline, 'records')})",
        pinned=pinned,
    )
    return database.execute(f"SELECT id, tag, seq, _offset FROM ({query}) ORDER BY ALL NULLS LAST").fetchall()


@pytest.mark.parametrize(
    "rows", ["(SELECT *, explode(tags) AS tag FROM changes)", "changes LATERAL VIEW explode(tags) x AS tag"]
)
def test_a_record_may_become_several_rows_and_each_says_where_it_is_from(tmp_path: Path, rows: str) -> None:
    sql = f"-- a comment\nSELECT id, tag, seq + 1 AS seq, _lakemark FROM {rows}"
    assert made(tmp_path, sql) == [(1, "a", 6, 0), (1, "b", 6, 0), (1, None, 6, 0)]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT id, my_function(tags) AS tag, seq, _lakemark FROM changes", "MY_FUNCTION"),
        ("SELECT id, 'x' AS tag, seq / 2 AS seq, _lakemark FROM changes", "seq / 2"),
        ("SELECT id, CAST(seq AS STRING) AS tag, seq, _lakemark FROM changes", "CAST"),
        ("SELECT id, tag, seq, _lakemark FROM changes LATERAL VIEW OUTER explode(tags) x AS tag", "OUTER"),
        ("SELECT id, explode_outer(tags) AS tag, seq, _lakemark FROM changes", "explode_outer"),
        ("SELECT id, 'x' AS tag, _lakemark FROM changes", "makes no column seq"),
        ("SELECT id, 'x' AS tag, 1.5 AS seq, _lakemark FROM changes", "of seq, which is BIGINT: only Spark casts it"),
        ("SELECT id, 'x' AS tag, other AS seq, _lakemark FROM changes", "DuckDB cannot compute"),
        ("SELECT id, FROM WHERE", "cannot be computed outside Spark"),
    ],
)
def test_what_may_mean_something_else_is_named(tmp_path: Path, sql: str, says: str) -> None:
    with pytest.raises(NotRecomputed) as why:
        made(tmp_path, sql)
    assert says.lower() in str(why.value).lower()


def test_python_is_for_spark() -> None:
    with pytest.raises(NotRecomputed, match=r"t\.py is Python"):
        verify_sql("t.py")


def test_names_and_texts_are_translated() -> None:
    assert translated("`a b` = 'it\\'s'", "c", {"a b": "STRING"}) == "\"a b\" = 'it''s'"
    assert translated("SELECT * FROM changes;", "t", {}).lower() == "select * from changes"
    with pytest.raises(NotRecomputed):
        translated("a = = b", "c", {})


TYPES = {
    "n": "BIGINT", "m": "INT", "text": "STRING", "folded": "STRING COLLATE UTF8_LCASE", "single": "FLOAT",
    "double": "DOUBLE", "money": "DECIMAL(5, 2)", "raw": "BINARY", "at": "TIMESTAMP", "flag": "BOOLEAN",
    "place": "STRUCT<n: STRING>",
}  # fmt: skip


@pytest.mark.parametrize(
    "same",
    [
        "n = 1 AND m > -2 AND n + m * 2 <> 7",
        "text IN ('a', 'b') OR text IS NULL OR flag",
        "text BETWEEN 'a' AND 'c' AND concat(text, 'x') = 'yx' AND text || 'a' <> 'b'",
        "coalesce(n, 0) = 0 AND CASE WHEN flag THEN 'x' ELSE text END = 'x' AND if(flag, 1, n) = 1",
        "single = single AND at <= at AND flag = true AND CASE n WHEN 1 THEN true ELSE flag END",
        "money > 1 AND n = 1.5 AND n BETWEEN 1 AND 2.5 AND money * n > 2",
        "n = NULL AND nullif(text, 'x') <=> 'y'",
    ],
)
def test_a_condition_on_operands_of_one_kind_is_translated(same: str) -> None:
    assert translated(same, "c", TYPES)


@pytest.mark.parametrize(
    "other",
    [
        *("single = 0.1", "single > 1", "n = '1'", "text = 1", "raw = 'text'", "at > '2026-01-01'"),
        *("concat(double, 'x') = '1.0x'", "concat(at, '') = ''", "text || n = 'a1'", "folded = 'a'", "double + 1 = 2"),
        *("n IN (1, '2')", "n BETWEEN 1 AND '2'", "coalesce(n, 'x') = 'x'", "CASE WHEN flag THEN 1 ELSE 'x' END = 1"),
        *("CASE text WHEN 1 THEN true END", "if(flag, n, text) = 'a'", "place.n = 1", "other = 1", "lower(text) = 'a'"),
        *("-text = 1", "text LIKE 'a%'", "n / 2 = 1"),
    ],
)  # fmt: skip
def test_a_condition_that_one_of_the_engines_casts_is_left_to_spark(other: str) -> None:
    with pytest.raises(NotRecomputed):
        translated(other, "c", TYPES)


def test_a_column_that_is_called_like_one_of_the_audits_own_is_named() -> None:
    source = {**PIPELINE["source"], "schema": "id BIGINT, seq BIGINT, _Kind STRING, _id STRING"}
    pipeline = Pipeline.model_validate({**PIPELINE, "source": source, "change": {"keys": ["id"]}, "transform": None})
    with pytest.raises(NotRecomputed, match="a column is called _Kind"):
        verify_computable(pipeline)
