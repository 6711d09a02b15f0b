"""A real S3-compatible server, and a proxy before it. boto3 goes to the proxy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from include.lake.s3 import connection
from include.lake.uri import LakeUri
from tests.conftest import settings_in
from tests.support.lossy_store import LossyStore, lossy_store
from tests.support.s3_server import S3Server, s3_server

BUCKET = "lake"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3")
    with s3_server(settings_in(folder / "home"), folder / "server") as server:
        server.bucket(BUCKET)
        yield server


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[LossyStore]:
    with lossy_store(server.url) as proxy:
        for name, value in {**server.environment, "AWS_ENDPOINT_URL_S3": proxy.url}.items():
            monkeypatch.setenv(name, value)
        connection.forget()
        yield proxy
    connection.forget()


@pytest.fixture
def on_s3(store: LossyStore) -> LakeUri:
    """An empty place for a lake."""
    return LakeUri(f"s3://{BUCKET}/{uuid.uuid4().hex}")
