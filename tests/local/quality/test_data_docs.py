"""Data Docs: Great Expectations' own pages, complete, and with nothing from another host."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.quality.data_docs import build
from include.quality.evidence import Subject, forget, judgements, record
from include.quality.suite import Rule, Suite
from include.quality.verdict import Verdict, result_of_figure, result_of_rows, with_samples
from include.settings import Settings
from tests.support.waiting import wait_until


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"LAKEMARK_HOME": str(tmp_path)})


def a_pipeline(name: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": name,
            "source": {"bootstrap_servers": "k", "topics": ["t"], "schema": "id BIGINT, name STRING"},
            "change": {"keys": ["id"]},
            "target": {"table": f"lake://silver/{name}"},
        }
    )


def a_rule(kind: str, **kwargs: object) -> Rule:
    return Rule(kind, kind, kwargs, None, {"type": kind, "kwargs": kwargs, "meta": {}})


def a_verdict() -> Verdict:
    null = a_rule("expect_column_values_to_not_be_null", column="name")
    query = a_rule("unexpected_rows_expectation", unexpected_rows_query="SELECT * FROM {batch} WHERE id > 3")
    figure = a_rule("expect_table_row_count_to_be_between", min_value=1)
    results = (
        with_samples(result_of_rows(null, "quarantine", 10, None, 2), [None]),
        with_samples(result_of_rows(query, "warn", 10, None, 1), [{"id": 4, "name": "<script>alert(1)</script>"}]),
        result_of_figure(figure, "fail", 10, True),
    )
    return Verdict(Suite("shop", (null, query, figure), {}), results)


def test_every_judgement_has_its_page_and_no_page_asks_another_host(settings: Settings, tmp_path: Path) -> None:
    orders, others = a_pipeline("orders"), a_pipeline("others")
    for n in range(3):
        subject = Subject("orders", f"attempt{n}", 1 if n else -2, n)
        record(Tables.of(settings, orders).quality, subject, a_verdict())
    index = build(settings, [orders, others], tmp_path / "docs", newest=2)
    assert index == tmp_path / "docs" / "index.html"
    text = index.read_text()
    assert [text.index("batch 2") < text.index("batch 1"), "backfill 2" in text] == [True, False]
    pages = [index.parent / link for link in re.findall(r'href="([^"]+\.html)"', text)]
    assert len(pages) == 3  # two judgements and the suite
    for page in pages:
        found = page.read_text()
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="https?:', found)
        assert "<script>alert" not in found
        assert (page.parent / re.findall(r'href="([^"]*lakemark\.css)"', found)[0]).resolve().exists()
    judged = next(page.read_text() for page in pages if "validations" in page.parts)
    assert "2 unexpected values found" in judged
    assert "values must never be null" in judged


def test_the_site_takes_the_place_of_the_one_before(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "old.html").write_text("old")
    build(settings, [a_pipeline("orders")], folder, newest=2)
    assert "no suite has judged anything yet" in (folder / "index.html").read_text()
    assert not (folder / "old.html").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".docs")] == []


def test_old_judgements_are_forgotten(settings: Settings) -> None:
    path = Tables.of(settings, a_pipeline("orders")).quality
    assert forget(path, datetime.now(UTC)) == 0  # there is none
    record(path, Subject("orders", "first", 1, 0), a_verdict())
    between = judgements(path)[0]["judged_at"] + timedelta(seconds=1)
    wait_until(lambda: datetime.now(UTC) > between + timedelta(seconds=1))
    record(path, Subject("orders", "second", 1, 1), a_verdict())
    assert forget(path, between) == 3
    assert {row["attempt_id"] for row in judgements(path)} == {"second"}
