"""Data Docs in a real S3-compatible store: complete, in place of the earlier ones, and an error says what went
wrong."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.pipeline_file.tables import Tables
from include.protocol.errors import RetryableError, TerminalError
from include.quality.evidence import Subject, record
from include.quality.publish import publish
from include.settings import PROJECT_ROOT, Settings
from tests.conftest import settings_in
from tests.local.quality.test_data_docs import a_pipeline, a_verdict
from tests.support.s3_server import S3Server
from tests.support.world import LAKEMARK


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an installation where two batches of `orders` were judged."""
    settings = settings_in(tmp_path)
    for n in range(2):
        record(Tables.of(settings, a_pipeline("orders")).quality, Subject("orders", f"attempt{n}", 1, n), a_verdict())
    return settings


def test_the_site_takes_the_place_of_the_one_before_and_of_nothing_else(
    store: S3Server, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    bucket, said = store.bucket("evidence"), []
    bucket.put_object(Key="docs/validations/orders/old.html", Body=b"old")
    bucket.put_object(Key="docs/notes.txt", Body=b"somebody else's")
    orders = a_pipeline("orders")
    assert publish(settings, [orders], "s3://evidence/docs/", 10, said.append) == "s3://evidence/docs/index.html"
    keys = {found.key for found in bucket.objects.all()}
    assert "docs/validations/orders/old.html" not in keys
    assert "docs/notes.txt" in keys
    assert said == [f"{len(keys) - 1} pages uploaded, 1 old ones removed"]

    index = bucket.Object("docs/index.html").get()
    assert index["ContentType"].replace(" ", "") == "text/html;charset=utf-8"
    text = index["Body"].read().decode()
    assert 'id="attempt1"' in text
    pages = re.findall(r'href="([^"]+\.html)"', text)
    assert len(pages) == 3
    for page in pages:
        assert b"values must never be null" in bucket.Object(f"docs/{page}").get()["Body"].read()
    # Only the newest: what only the earlier site had is gone, and no link is broken.
    publish(settings, [orders], "s3://evidence/docs", 1, said.append)
    assert len(list(bucket.objects.filter(Prefix="docs/validations/"))) == 1


def test_the_command_uploads_to_where_and_as_who_the_environment_says(store: S3Server, settings: Settings) -> None:
    (settings.home / "pipelines").mkdir()
    made = a_pipeline("orders").model_dump(mode="json", exclude_defaults=True, by_alias=True)
    (settings.home / "pipelines" / "orders.yaml").write_text(yaml.safe_dump(made))
    changes = {**store.environment, "AWS_SECRET_ACCESS_KEY": "wrong", "LAKEMARK_DATA_DOCS": "s3://evidence"}
    environment = settings.child_environment(**changes, LAKEMARK_PIPELINES=str(settings.home / "pipelines"))
    command = [LAKEMARK, "quality", "docs"]
    refused = subprocess.run(
        command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert refused.returncode == 1
    assert "s3://evidence" in refused.stderr
    assert "SignatureDoesNotMatch" in refused.stderr
    assert "AWS_PROFILE" in refused.stderr  # what to do


@pytest.mark.parametrize(
    ("to", "changes", "error", "found"),
    [
        ("s3://nowhere/docs", {}, TerminalError, "NoSuchBucket"),
        ("s3://", {}, TerminalError, "s3://BUCKET/PREFIX"),
        ("s3://evidence", {"AWS_ACCESS_KEY_ID": ""}, TerminalError, "credentials"),
        (
            "s3://evidence",
            {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"},
            RetryableError,
            "connect",
        ),
    ],
)
def test_a_store_that_refuses_is_told(
    store: S3Server,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    to: str,
    changes: dict[str, str],
    error: Any,
    found: str,
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**store.environment, **changes, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=found):
        publish(settings, [a_pipeline("orders")], to, 1, lambda text: None)
